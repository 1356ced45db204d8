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

/// Reads records block by block, and passes on no byte whose checksum does not agree. Holds at most
/// two blocks in memory.
///
/// Thread safety: one thread at a time.
class RecordReader {
 public:
  using Sink = std::function<void(Bytes)>;

  /// Form of the blocks that are passed on: decompressed, or as they lie in the file with their
  /// headers.
  enum class Form : std::uint8_t { Raw, Stored };

  /// Calls `sink` with each block in turn. Returns the checksum of the record, which has to be that
  /// of its place, except for a manifest, whose checksum nothing names. Throws `Damaged`, possibly
  /// after blocks have been passed on: the record is whole only once the call has returned.
  std::uint64_t read(StoredFile& file, const RecordPlace& place, const RecordId& id,
                     const Sink& sink, Form form = Form::Raw);

 private:
  Bytes decoded(const BlockHeader& header, Bytes stored, const std::string& path, std::uint64_t at);

  std::vector<std::byte> stored_;  ///< A block with its header, and the header of the next.
  std::vector<std::byte> raw_;
  /// Made when it is needed.
  std::unique_ptr<ZSTD_DCtx_s, std::size_t (*)(ZSTD_DCtx_s*)> decompressor_{nullptr, nullptr};
};

}  // namespace reprise::record
