#include "record/format.hpp"

#include "record/checksum.hpp"
#include "record/errors.hpp"

#include <cstddef>

namespace reprise::record {

void FileHeader::write(StoredFile& file) {
  const Bytes bytes = std::as_bytes(std::span(this, 1));
  checksum = record::checksum(bytes.first(offsetof(FileHeader, checksum)));
  file.write(bytes, 0);
}

FileHeader FileHeader::read(StoredFile& file) {
  FileHeader header;
  const WritableBytes bytes = std::as_writable_bytes(std::span(&header, 1));
  file.read(bytes, 0);
  const auto refuse = [&](std::size_t offset, const auto&... problem) {
    throw damaged(file.path(), offset, problem...);
  };
  if (header.magic != kMagic) {
    refuse(0, "this is no file of a checkpoint");
  }
  constexpr std::size_t kChecked = offsetof(FileHeader, checksum);
  if (!checksums_agree(header.checksum, record::checksum(bytes.first(kChecked)))) {
    refuse(kChecked, "the header does not have the checksum that it had when it was written");
  }
  if (header.version > kVersion) {
    throw CheckpointError(CheckpointError::Kind::Unsupported,
                          base::text("written in version ", header.version,
                                     " of the format; this reprise reads up to ", kVersion),
                          file.path());
  }
  if (header.version == 0) {
    refuse(offsetof(FileHeader, version), "version 0 of the format never was");
  }
  return header;
}

}  // namespace reprise::record
