#pragma once

#include "record/bytes.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

// The fixed parts of docs/checkpoint_format.md: the beginnings of files and of blocks.

namespace reprise::record {

inline constexpr std::uint32_t kVersion = 1;

/// Uncompressed bytes of every block but the last of its record. A writer or reader holds one block
/// in memory, small enough to stay in a core's cache between checksum and copy.
#if defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
// A fuzzer's inputs are small, and their records should have several blocks.
inline constexpr std::size_t kBlockBytes = 256;
#else
inline constexpr std::size_t kBlockBytes = std::size_t{256} << 10U;
#endif

// Enumerations have the width of the numbers in the files, where any number may be read.
enum class FileKind : std::uint32_t { Data = 1, Manifest = 2 };  // NOLINT(performance-enum-size)

/// The first 64 bytes of a file. Their layout is the same in all versions, so that a reader of any
/// version can tell a damaged file from a newer one.
struct FileHeader {
  static constexpr std::size_t kBytes = 64;

  FileKind kind = FileKind::Data;
  std::uint64_t number = 0;     ///< Number of the checkpoint that the file was written for.
  std::uint32_t sequence = 0;   ///< Number of the data file among those of its checkpoint.
  std::uint64_t raw_bytes = 0;  ///< Bytes of a manifest's record; 0 in data files.

  [[nodiscard]] std::array<std::byte, kBytes> encode() const;
  /// Throws `Damaged`, or `Unsupported` if a newer version wrote it.
  static FileHeader decode(Bytes bytes, const std::string& file);

  friend bool operator==(const FileHeader&, const FileHeader&) = default;
};

/// Contents of a record, which is a run of blocks.
enum class RecordType : std::uint32_t {  // NOLINT(performance-enum-size)
  Chunk = 1,
  State = 2,
  Manifest = 3,
};

enum class Codec : std::uint32_t { Plain = 0, Zstd = 1 };  // NOLINT(performance-enum-size)

/// Identity of a record, so that one never passes for another.
struct RecordId {
  RecordType type = RecordType::Chunk;
  /// A chunk's index and generation, the checksum of a state's name, a manifest's number.
  std::uint64_t value = 0;

  static RecordId of_chunk(std::uint32_t index, std::uint32_t generation) noexcept {
    return {RecordType::Chunk, (std::uint64_t{generation} << 32U) | index};
  }
  static RecordId of_state(const std::string& name);
  static RecordId of_manifest(std::uint64_t number) noexcept {
    return {RecordType::Manifest, number};
  }

  friend bool operator==(const RecordId&, const RecordId&) = default;
};

/// Precedes the stored bytes of a block.
struct BlockHeader {
  static constexpr std::size_t kBytes = 40;
  /// Bytes of it that its checksum covers, before the stored bytes.
  static constexpr std::size_t kCheckedBytes = 32;

  RecordId record;
  Codec codec = Codec::Plain;
  std::uint32_t stored = 0;    ///< Bytes of the block in the file.
  std::uint32_t raw = 0;       ///< Bytes of the block once decompressed; at least `stored`.
  std::uint32_t place = 0;     ///< Place of the block in its record, from 0.
  std::uint64_t checksum = 0;  ///< XXH3-64 of the header's first 32 bytes and the stored bytes.

  [[nodiscard]] std::array<std::byte, kBytes> encode() const;
  /// Accepts any bytes as a header: the caller knows what should be there, and compares.
  static BlockHeader decode(Bytes bytes, const std::string& file, std::uint64_t offset);
};

/// The place of a record in its file.
struct RecordPlace {
  std::uint64_t offset = 0;
  std::uint64_t stored = 0;  ///< Bytes in the file, headers of the blocks included.
  std::uint64_t raw = 0;     ///< Bytes once decompressed.
  /// XXH3-64 of the headers of its blocks, which contain the checksums of the data.
  std::uint64_t checksum = 0;

  [[nodiscard]] std::uint64_t end() const noexcept { return offset + stored; }

  friend bool operator==(const RecordPlace&, const RecordPlace&) = default;
};

/// Blocks of a record of so many bytes.
[[nodiscard]] constexpr std::uint64_t blocks_of(std::uint64_t raw) noexcept {
  return raw / kBlockBytes + (raw % kBlockBytes != 0 ? 1U : 0U);
}

}  // namespace reprise::record
