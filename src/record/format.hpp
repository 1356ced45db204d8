#pragma once

#include "record/bytes.hpp"
#include "record/files.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

// The fixed parts of docs/checkpoint_format.md: the beginnings of files and of blocks, which lie in
// memory as in a file.

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
  /// As in PNG: a first byte beyond ASCII, both line ends and an end-of-file character detect most
  /// changes by a transfer as text.
  static constexpr std::array<std::uint8_t, 8> kMagic{0x89, 'R', 'P', 'R', '\r', '\n', 0x1a, '\n'};
  static constexpr std::uint32_t kByteOrderMark = 0x01020304U;

  std::array<std::uint8_t, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t byte_order = kByteOrderMark;
  FileKind kind = FileKind::Data;
  std::uint32_t sequence = 0;   ///< Number of the data file among those of its checkpoint.
  std::uint64_t number = 0;     ///< Number of the checkpoint that the file was written for.
  std::uint64_t raw_bytes = 0;  ///< Bytes of a manifest's record; 0 in data files.
  std::array<std::uint64_t, 2> reserved{};
  std::uint64_t checksum = 0;  ///< XXH3-64 of the bytes before it.

  /// Writes the header, with its checksum, to the start of the file.
  void write(StoredFile& file);
  /// Throws `Damaged`, or `Unsupported` if a newer version wrote it.
  static FileHeader read(StoredFile& file);
};
static_assert(sizeof(FileHeader) == FileHeader::kBytes &&
              std::has_unique_object_representations_v<FileHeader>);

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

  RecordType type = RecordType::Chunk;
  Codec codec = Codec::Plain;
  std::uint32_t stored = 0;  ///< Bytes of the block in the file.
  std::uint32_t raw = 0;     ///< Bytes of the block once decompressed; at least `stored`.
  std::uint64_t value = 0;   ///< With `type`, the identity of its record.
  std::uint32_t place = 0;   ///< Place of the block in its record, from 0.
  std::uint32_t reserved = 0;
  std::uint64_t checksum = 0;  ///< XXH3-64 of the header's first 32 bytes and the stored bytes.

  [[nodiscard]] Bytes bytes() const noexcept { return std::as_bytes(std::span(this, 1)); }
};
static_assert(sizeof(BlockHeader) == BlockHeader::kBytes &&
              std::has_unique_object_representations_v<BlockHeader>);

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
