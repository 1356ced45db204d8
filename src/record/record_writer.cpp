#include "record/record_writer.hpp"

#include "record/checksum.hpp"
#include "record/errors.hpp"

#include <zstd.h>

#include <algorithm>
#include <new>

namespace reprise::record {

RecordWriter::RecordWriter(Compression compression) : level_(compression.level) {
  if (level_ > 0) {
    compressor_ = {ZSTD_createCCtx(), ZSTD_freeCCtx};
    if (compressor_ == nullptr) {
      throw std::bad_alloc();
    }
    gathered_.resize(kBlockBytes);
    compressed_.resize(kBlockBytes);
  }
}

RecordPlace RecordWriter::write(StoredFile& file, std::uint64_t offset, const RecordId& id,
                                std::span<const Bytes> parts, const std::stop_token& stop) {
  RecordPlace place;
  place.offset = offset;
  std::vector<std::byte> headers;
  Pieces<Bytes> pieces(parts);
  for (std::uint32_t n = 0;; ++n) {
    if (stop.stop_requested()) {
      throw CheckpointError(CheckpointError::Kind::Cancelled, "the save was cancelled");
    }
    block_.assign(1, Bytes());
    std::size_t raw = 0;
    for (Bytes piece = pieces.next(kBlockBytes); !piece.empty();
         piece = pieces.next(kBlockBytes - raw)) {
      block_.push_back(piece);
      raw += piece.size();
    }
    if (raw == 0) {
      place.checksum = checksum(headers);
      return place;
    }
    BlockHeader header;
    header.type = id.type;
    header.value = id.value;
    header.codec = encode_block(raw);
    header.raw = static_cast<std::uint32_t>(raw);
    for (const Bytes part : block_) {
      header.stored += static_cast<std::uint32_t>(part.size());
    }
    header.place = n;
    block_.front() = header.bytes().first(BlockHeader::kCheckedBytes);
    header.checksum = checksum(block_);
    block_.front() = header.bytes();
    headers.insert(headers.end(), block_.front().begin(), block_.front().end());
    file.write(block_, place.end());
    place.stored += BlockHeader::kBytes + header.stored;
    place.raw += raw;
  }
}

Codec RecordWriter::encode_block(std::size_t raw) {
  if (compressor_ == nullptr || raw < 2) {
    return Codec::Plain;
  }
  Bytes whole = block_.back();
  if (block_.size() > 2) {
    auto to = gathered_.begin();
    for (const Bytes part : block_) {
      to = std::copy(part.begin(), part.end(), to);
    }
    whole = Bytes(gathered_).first(raw);
  }
  // The room is smaller than the raw bytes, because a block that does not shrink is stored raw.
  const std::size_t size =
      ZSTD_compressCCtx(compressor_.get(), compressed_.data(), raw - 1, whole.data(), raw, level_);
  if (ZSTD_isError(size) != 0) {
    return Codec::Plain;
  }
  block_.assign({Bytes(), Bytes(compressed_).first(size)});
  return Codec::Zstd;
}

}  // namespace reprise::record
