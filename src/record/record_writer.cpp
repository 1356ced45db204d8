#include "record/record_writer.hpp"

#include "record/checksum.hpp"
#include "record/errors.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace reprise::record {

RecordPlace RecordWriter::write(StoredFile& file, std::uint64_t offset,
                                std::span<const Bytes> parts, Form form,
                                const std::stop_token& stop) {
  RecordPlace place;
  place.offset = offset;
  std::vector<BlockHeader> headers;
  const bool compress = level_ > 0 && form == Form::Compressed;
  std::byte* const stored = block_.data() + BlockHeader::kBytes;
  std::byte* const gathered = compress ? raw_.data() : stored;
  for (Bytes rest; !rest.empty() || !parts.empty();) {
    if (stop.stop_requested()) {
      throw CheckpointError(CheckpointError::Kind::Cancelled, "the save was cancelled");
    }
    std::size_t raw = 0;
    while (raw < kBlockBytes && !(rest.empty() && parts.empty())) {
      if (rest.empty()) {
        rest = parts.front();
        parts = parts.subspan(1);
      }
      const Bytes piece = rest.first(std::min(rest.size(), kBlockBytes - raw));
      std::copy(piece.begin(), piece.end(), gathered + raw);
      rest = rest.subspan(piece.size());
      raw += piece.size();
    }
    if (raw == 0) {
      break;  // Only empty parts were left.
    }
    BlockHeader header{.stored = raw};
    if (compress) {
      // The room is smaller than the raw bytes, because a block that does not shrink is stored raw.
      header.stored = ZSTD_compress(stored, raw - 1, gathered, raw, level_);
      if (ZSTD_isError(header.stored) != 0) {
        header.stored = raw;
        std::copy_n(gathered, raw, stored);
      }
    }
    const WritableBytes block = WritableBytes(block_).first(BlockHeader::kBytes + header.stored);
    std::memcpy(block.data(), &header, sizeof(header));
    header.checksum = checksum(block.subspan(sizeof(header.checksum)));
    std::memcpy(block.data(), &header, sizeof(header));
    file.write(block, place.end());
    headers.push_back(header);
    place.stored += block.size();
    place.raw += raw;
  }
  place.checksum = checksum(std::as_bytes(std::span(headers)));
  return place;
}

}  // namespace reprise::record
