#pragma once

#include "record/checksum.hpp"
#include "record/compression.hpp"
#include "record/files.hpp"
#include "record/format.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace reprise::record {

/// Reads records block by block, and passes on no byte whose checksum does not agree. Holds at most
/// two blocks in memory.
///
/// Thread safety: one thread at a time.
class RecordReader {
 public:
  using Sink = std::function<void(Bytes)>;

  /// Calls `sink` with the bytes of each block in turn, `place.raw` in all. Throws `Damaged`,
  /// possibly after blocks have been passed on: the record is whole only once the call has
  /// returned.
  void read(StoredFile& file, const RecordPlace& place, const RecordId& id, const Sink& sink);

  /// As `read`, but passes on the blocks as they are stored, headers included.
  void read_stored(StoredFile& file, const RecordPlace& place, const RecordId& id,
                   const Sink& sink);

  /// As `read`, for a record whose checksum is not known: that of a manifest.
  std::uint64_t read_unnoted(StoredFile& file, const RecordPlace& place, const RecordId& id,
                             const Sink& sink);

 private:
  enum class Form : std::uint8_t { Raw, Stored };

  /// The checksum of the record.
  std::uint64_t read_blocks(StoredFile& file, const RecordPlace& place, const RecordId& id,
                            const Sink& sink, Form form);
  /// Throws unless the header is the expected one.
  static void check(const BlockHeader& header, const BlockHeader& expected, const std::string& path,
                    std::uint64_t at, std::uint64_t end);
  Bytes decoded(const BlockHeader& header, Bytes stored, const std::string& path, std::uint64_t at);

  std::vector<std::byte> stored_;  ///< A block with its header, and the header of the next.
  std::vector<std::byte> raw_;
  std::optional<Decompressor> decompressor_;  ///< Made when it is needed.
  Checksum block_checksum_;
  Checksum record_checksum_;
};

}  // namespace reprise::record
