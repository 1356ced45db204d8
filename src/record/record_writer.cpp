#include "record/record_writer.hpp"

#include <algorithm>
#include <array>

namespace reprise::record {
namespace {

/// Gives the bytes of a list of parts in blocks.
class Blocks {
 public:
  explicit Blocks(std::span<const Bytes> parts) noexcept : parts_(parts) {}

  /// Appends the next bytes to the list, up to a whole block. Returns their number.
  std::size_t next(std::vector<Bytes>& list) {
    std::size_t size = 0;
    while (size < kBlockBytes && part_ < parts_.size()) {
      const Bytes rest = parts_[part_].subspan(done_);
      const Bytes taken = rest.first(std::min(rest.size(), kBlockBytes - size));
      if (!taken.empty()) {
        list.push_back(taken);
      }
      size += taken.size();
      done_ += taken.size();
      if (taken.size() == rest.size()) {
        ++part_;
        done_ = 0;
      }
    }
    return size;
  }

 private:
  std::span<const Bytes> parts_;
  std::size_t part_ = 0;
  std::size_t done_ = 0;  ///< Bytes of that part that are used.
};

}  // namespace

RecordWriter::RecordWriter(Compression compression) {
  if (compression.level > 0) {
    compressor_.emplace(compression.level);
    gathered_.resize(kBlockBytes);
    compressed_.resize(kBlockBytes);
  }
}

RecordPlace RecordWriter::write(StoredFile& file, std::uint64_t offset, const RecordId& id,
                                std::span<const Bytes> parts, const std::stop_token& stop) {
  RecordPlace place;
  place.offset = offset;
  record_checksum_.reset();
  Blocks blocks(parts);
  for (std::uint32_t n = 0;; ++n) {
    if (stop.stop_requested()) {
      throw CheckpointError(CheckpointError::Kind::Cancelled, "the save was cancelled");
    }
    block_.assign(1, Bytes());
    const std::size_t raw = blocks.next(block_);
    if (raw == 0) {
      place.checksum = record_checksum_.value();
      return place;
    }
    BlockHeader header;
    header.record = id;
    header.codec = encode_block(raw);
    header.raw = static_cast<std::uint32_t>(raw);
    header.stored = 0;
    for (const Bytes part : block_) {
      header.stored += static_cast<std::uint32_t>(part.size());
    }
    header.place = n;
    std::array<std::byte, BlockHeader::kBytes> bytes = header.encode();
    block_checksum_.reset();
    block_checksum_.add(Bytes(bytes).first(BlockHeader::kCheckedBytes));
    for (const Bytes part : block_) {
      block_checksum_.add(part);
    }
    header.checksum = block_checksum_.value();
    bytes = header.encode();
    record_checksum_.add(bytes);
    block_.front() = bytes;
    file.write(block_, place.end());
    place.stored += BlockHeader::kBytes + header.stored;
    place.raw += raw;
  }
}

Codec RecordWriter::encode_block(std::size_t raw) {
  if (!compressor_ || raw < 2) {
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
  const std::size_t size = compressor_->compress(whole, Room(compressed_).first(raw - 1));
  if (size == 0) {
    return Codec::Plain;
  }
  block_.assign({Bytes(), Bytes(compressed_).first(size)});
  return Codec::Zstd;
}

}  // namespace reprise::record
