#pragma once

#include <reprise/checkpoint.hpp>

#include "record/files.hpp"
#include "record/format.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

namespace reprise::record {

enum class Form : std::uint8_t { Plain, Compressed };

/// Writes records: cuts bytes into blocks, compresses them if asked to, and adds headers. Holds a
/// block in memory, and two if it compresses.
///
/// Thread safety: one thread at a time.
class RecordWriter {
 public:
  explicit RecordWriter(Compression compression)
      : level_(compression.level), raw_(level_ > 0 ? kBlockBytes : 0) {}

  /// Writes the parts one after the other as one record from `offset` on, compressed if `form` says
  /// so and the level is not 0. Throws `Io` if a write fails, `Cancelled` after a stop request, and
  /// `std::bad_alloc` without memory.
  RecordPlace write(StoredFile& file, std::uint64_t offset, std::span<const Bytes> parts, Form form,
                    const std::stop_token& stop);

 private:
  int level_;
  std::vector<std::byte> raw_;  ///< Collects a block, because the compressor needs it in one piece.
  /// A header and the stored bytes.
  std::vector<std::byte> block_ = std::vector<std::byte>(BlockHeader::kBytes + kBlockBytes);
};

}  // namespace reprise::record
