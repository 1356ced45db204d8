#include "checkpoint/manifest.hpp"
#include "record/errors.hpp"
#include "record/record_reader.hpp"
#include "record/record_writer.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

namespace reprise::checkpoint {
namespace {

record::FileHeader read_header(record::StoredFile& file, record::FileKind kind,
                               const DataName& name) {
  const record::FileHeader header = record::FileHeader::read(file);
  if (header.kind != kind || header.number != name.number || header.sequence != name.sequence) {
    throw record::damaged(file.path(), 0, "this is another file: kind ",
                          static_cast<std::uint32_t>(header.kind), ", checkpoint ", header.number,
                          ", data file ", header.sequence);
  }
  return header;
}

}  // namespace

Manifest read_manifest(record::Folder& folder, std::uint64_t number) {
  record::StoredFile file = folder.open(manifest_name(number));
  const record::FileHeader header = read_header(file, record::FileKind::Manifest, {number, 0});
  const std::uint64_t size = file.size();
  const std::uint64_t stored =
      std::max<std::uint64_t>(size, record::FileHeader::kBytes) - record::FileHeader::kBytes;
  // Manifests are not compressed, so the length follows from that of the file.
  if (header.raw_bytes > stored ||
      stored - header.raw_bytes !=
          record::blocks_of(header.raw_bytes) * record::BlockHeader::kBytes) {
    throw record::damaged(file.path(), 0, "a manifest of ", header.raw_bytes,
                          " bytes in a file of ", size);
  }
  const record::RecordPlace place{record::FileHeader::kBytes, stored, header.raw_bytes, 0};
  std::vector<std::byte> bytes;
  record::RecordReader reader;
  const std::uint64_t checksum = reader.read(
      file, place, record::RecordId::of_manifest(number),
      [&](record::Bytes block) { bytes.insert(bytes.end(), block.begin(), block.end()); });
  Manifest manifest = decode_manifest(bytes, number, file.path());
  manifest.id.checksum = checksum;
  return manifest;
}

void refuse_newer_version(record::Folder& folder, std::uint64_t number) {
  try {
    record::StoredFile file = folder.open(manifest_name(number));
    static_cast<void>(record::FileHeader::read(file));
  } catch (const CheckpointError& error) {
    if (error.kind() == CheckpointError::Kind::Unsupported) {
      throw;
    }
  }
}

std::uint64_t write_manifest(record::Folder& folder, Manifest& manifest) {
  const std::uint64_t number = manifest.id.number;
  const std::vector<std::byte> bytes = encode(manifest);
  static_cast<void>(decode_manifest(bytes, number, folder.path_of(manifest_name(number))));
  record::StoredFile file = folder.create(unfinished_name(number));
  record::FileHeader{
      .kind = record::FileKind::Manifest, .number = number, .raw_bytes = bytes.size()}
      .write(file);
  // Cannot be cancelled, because it takes little time compared with the data.
  const record::RecordPlace place = record::RecordWriter({}).write(
      file, record::FileHeader::kBytes, record::RecordId::of_manifest(number),
      std::array{record::Bytes(bytes)}, {});
  file.sync();
  manifest.id.checksum = place.checksum;
  return place.end();
}

record::StoredFile open_data(record::Folder& folder, const DataFile& data) {
  const auto& [name, written] = data;
  record::StoredFile file = folder.open(data_name(name));
  if (const std::uint64_t size = file.size(); size != written) {
    throw record::damaged(file.path(), std::min(size, written), "the file has ", size,
                          " bytes; when it was written it had ", written);
  }
  static_cast<void>(read_header(file, record::FileKind::Data, name));
  return file;
}

std::vector<std::uint64_t> manifest_numbers(const std::vector<std::string>& names) {
  std::vector<std::uint64_t> numbers;
  for (const std::string& name : names) {
    if (const std::optional<std::uint64_t> number = parse_manifest_name(name)) {
      numbers.push_back(*number);
    }
  }
  std::ranges::sort(numbers, std::greater());
  return numbers;
}

}  // namespace reprise::checkpoint
