#pragma once

#include "record/bytes.hpp"
#include "record/files.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

// The fixed parts of docs/checkpoint_format.md: the beginnings of files and of blocks, which lie in
// memory as in a file.

namespace reprise::record {

inline constexpr std::uint32_t kVersion = 1;

/// Uncompressed bytes of every block but the last of its record. A block is small enough to stay in
/// a core's cache between checksum and copy.
#if defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
// A fuzzer's inputs are small, and their records should have several blocks.
inline constexpr std::size_t kBlockBytes = 256;
#else
inline constexpr std::size_t kBlockBytes = std::size_t{256} << 10U;
#endif

// The enumeration has the width of the number in a file, where a damaged file may have any number.
enum class FileKind : std::uint32_t { Data = 1, Manifest = 2 };  // NOLINT(performance-enum-size)

/// The first 64 bytes of a file. Their layout is the same in all versions, so that a reader of any
/// version can tell a damaged file from a newer one.
struct FileHeader {
  static constexpr std::size_t kBytes = 64;
  /// As in PNG: a first byte beyond ASCII, both line ends and an end-of-file character detect most
  /// changes by a transfer as text.
  static constexpr std::array<std::uint8_t, 8> kMagic{0x89, 'R', 'P', 'R', '\r', '\n', 0x1a, '\n'};

  std::array<std::uint8_t, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  FileKind kind = FileKind::Data;
  std::uint64_t number = 0;    ///< Number of the checkpoint that the file was written for.
  std::uint64_t sequence = 0;  ///< Number of a data file within its checkpoint.
  std::uint64_t contents = 0;  ///< XXH3-64 of what follows in a manifest; 0 in data files.
  std::array<std::uint64_t, 2> reserved{};
  std::uint64_t checksum = 0;  ///< XXH3-64 of the bytes before it.

  /// Writes the header, with its checksum, to the start of the file.
  void write(StoredFile& file);
  /// Throws `Damaged`, or `Unsupported` if a newer version wrote it.
  static FileHeader read(StoredFile& file);
};
static_assert(sizeof(FileHeader) == FileHeader::kBytes &&
              std::has_unique_object_representations_v<FileHeader>);

/// Precedes the stored bytes of a block. They are a zstd frame if they are fewer than the block's
/// raw bytes, and otherwise the raw bytes.
struct BlockHeader {
  static constexpr std::size_t kBytes = 16;

  std::uint64_t checksum = 0;  ///< XXH3-64 of `stored` and of the stored bytes.
  std::uint64_t stored = 0;    ///< Bytes of the block in the file.
};
static_assert(sizeof(BlockHeader) == BlockHeader::kBytes &&
              std::has_unique_object_representations_v<BlockHeader>);

/// The place of a record, which is a run of blocks, in its file.
struct RecordPlace {
  std::uint64_t offset = 0;
  std::uint64_t stored = 0;  ///< Bytes in the file, headers of the blocks included.
  std::uint64_t raw = 0;     ///< Bytes once decompressed.
  /// XXH3-64 of the headers of the record's blocks, which contain the checksums of the data. It
  /// detects blocks of another record, and blocks in another order.
  std::uint64_t checksum = 0;

  [[nodiscard]] std::uint64_t end() const noexcept { return offset + stored; }

  friend bool operator==(const RecordPlace&, const RecordPlace&) = default;
};

/// The number of blocks of a record of `raw` uncompressed bytes.
[[nodiscard]] constexpr std::uint64_t blocks_of(std::uint64_t raw) noexcept {
  return raw / kBlockBytes + (raw % kBlockBytes != 0 ? 1U : 0U);
}

}  // namespace reprise::record
