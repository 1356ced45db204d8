#pragma once

#include "record/files.hpp"
#include "record/format.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct ZSTD_DCtx_s;

namespace reprise::record {

/// Reads records block by block, and passes on only blocks whose checksum agrees. Holds at most two
/// blocks in memory.
///
/// Thread safety: one thread at a time.
class RecordReader {
 public:
  using Sink = std::function<void(Bytes)>;

  /// Calls `sink` with the bytes of each block in turn. Throws `Damaged` if the record is not the
  /// one that was written; blocks may have been passed on by then, so the record is known to be
  /// whole only once the call has returned.
  void read(StoredFile& file, const RecordPlace& place, const Sink& sink);

 private:
  Bytes decoded(Bytes stored, std::size_t raw, const std::string& path, std::uint64_t at);

  std::vector<std::byte> stored_;  ///< A block with its header.
  std::vector<std::byte> raw_;     ///< A block, decompressed.
  /// Made when a compressed block is read for the first time.
  std::unique_ptr<ZSTD_DCtx_s, std::size_t (*)(ZSTD_DCtx_s*)> decompressor_{nullptr, nullptr};
};

}  // namespace reprise::record
