#pragma once

#include <reprise/checkpoint.hpp>

#include "record/files.hpp"
#include "record/format.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

struct ZSTD_CCtx_s;

namespace reprise::record {

/// Writes records: cuts bytes into blocks, compresses them if asked to, and adds headers. Holds no
/// copy of uncompressed bytes, and two blocks if it compresses.
///
/// Thread safety: one thread at a time.
class RecordWriter {
 public:
  explicit RecordWriter(Compression compression);

  /// Writes the parts as one record from `offset` on. They must not change during the call, because
  /// a checksum is computed before the bytes are written. Throws `Io`, `Cancelled`,
  /// `std::bad_alloc`.
  RecordPlace write(StoredFile& file, std::uint64_t offset, const RecordId& id,
                    std::span<const Bytes> parts, const std::stop_token& stop);

 private:
  /// Puts the stored form of a block of so many bytes into `block_`, after its header.
  Codec encode_block(std::size_t raw);

  int level_;
  /// Null for level 0; kept from block to block.
  std::unique_ptr<ZSTD_CCtx_s, std::size_t (*)(ZSTD_CCtx_s*)> compressor_{nullptr, nullptr};
  /// A copy of the block's bytes in one piece, for the compressor.
  std::vector<std::byte> gathered_;
  std::vector<std::byte> compressed_;
  std::vector<Bytes> block_;  ///< The header, then the stored bytes.
};

}  // namespace reprise::record
