#include "record/record_reader.hpp"

#include "record/checksum.hpp"
#include "record/errors.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace reprise::record {

void RecordReader::read(StoredFile& file, const RecordPlace& place, const Sink& sink) {
  std::vector<std::byte> headers;
  std::uint64_t at = place.offset;
  for (std::uint64_t done = 0; done < place.raw;) {
    const auto raw =
        static_cast<std::size_t>(std::min<std::uint64_t>(kBlockBytes, place.raw - done));
    // Reads the most that a block and its header may take. A part of that may belong to the next
    // block and is read again, which costs less than two reads for each block.
    const auto most = static_cast<std::size_t>(
        std::min<std::uint64_t>(BlockHeader::kBytes + raw, place.end() - at));
    stored_.resize(std::max(stored_.size(), most));
    const WritableBytes room = WritableBytes(stored_).first(most);
    file.read(room, at);
    BlockHeader header;
    std::memcpy(&header, room.data(), std::min(sizeof(header), most));
    if (most < sizeof(header) || header.stored == 0 || header.stored > most - sizeof(header)) {
      throw damaged(file.path(), at, "a block of ", header.stored, " bytes in a place of ", most);
    }
    const Bytes block = room.first(BlockHeader::kBytes + header.stored);
    if (!checksums_agree(header.checksum, checksum(block.subspan(sizeof(header.checksum))))) {
      throw damaged(file.path(), at, "a block of ", header.stored,
                    " bytes does not have the checksum that it had when it was written");
    }
    headers.insert(headers.end(), block.begin(), block.begin() + BlockHeader::kBytes);
    sink(decoded(block.subspan(BlockHeader::kBytes), raw, file.path(), at));
    at += block.size();
    done += raw;
  }
  if (at != place.end()) {
    throw damaged(file.path(), at, place.end() - at, " bytes more than the record needs");
  }
  if (!checksums_agree(place.checksum, checksum(headers))) {
    throw damaged(file.path(), place.offset, "this record is not the one that the manifest names");
  }
}

Bytes RecordReader::decoded(Bytes stored, std::size_t raw, const std::string& path,
                            std::uint64_t at) {
  if (stored.size() == raw) {
    return stored;
  }
  if (decompressor_ == nullptr) {
    decompressor_ = {ZSTD_createDCtx(), ZSTD_freeDCtx};
    if (decompressor_ == nullptr) {
      throw std::bad_alloc();
    }
  }
  raw_.resize(std::max(raw_.size(), raw));
  // zstd returns an error as a number far above any size.
  if (ZSTD_decompressDCtx(decompressor_.get(), raw_.data(), raw, stored.data(), stored.size()) !=
      raw) {
    throw damaged(path, at, "a block does not decompress to ", raw, " bytes");
  }
  return Bytes(raw_).first(raw);
}

}  // namespace reprise::record
