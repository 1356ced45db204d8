#pragma once

#include "checkpoint/names.hpp"
#include "record/bytes.hpp"
#include "record/files.hpp"
#include "record/format.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::checkpoint {

/// A chunk as it was when it was saved. Only values of mutable columns change in a closed chunk,
/// and the caller knows when: otherwise the same index, generation and rows mean the same bytes in
/// one buffer.
struct ChunkId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  std::uint32_t rows = 0;
  std::uint32_t closed = 0;  ///< 1 or 0, in 32 bits, so that the struct has no padding.

  friend bool operator==(const ChunkId&, const ChunkId&) = default;
};

/// Where a record lies: its file, and its place there.
struct RecordRef {
  DataName file;
  record::RecordPlace place;

  [[nodiscard]] auto position() const noexcept { return std::pair(file, place.offset); }
};

/// Data files, with their sizes in bytes. They never change once a manifest names them.
using DataFiles = std::map<DataName, std::uint64_t>;
using DataFile = DataFiles::value_type;

struct ChunkEntry {
  ChunkId id;
  RecordRef at;
};

struct StateEntry {
  std::string name;
  RecordRef at;
};

inline constexpr std::size_t kMaxStateName = 255;

/// The most bytes of a manifest, which a reader takes into memory as a whole. 15 million chunks
/// need less.
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 30U;

/// The contents of one checkpoint.
struct Manifest {
  ManifestId id;
  DataFiles files;
  std::vector<ChunkEntry> chunks;  ///< Sorted by their place in the files.
  std::vector<StateEntry> states;  ///< Sorted by name.
};

[[nodiscard]] std::vector<std::byte> encode(const Manifest& manifest);

/// Reads and checks a manifest, but not the files that it names. Throws `CheckpointError`;
/// `Damaged` unless every entry is possible: files known and with room for the records, no chunk or
/// state named twice.
[[nodiscard]] Manifest read_manifest(record::Folder& folder, std::uint64_t number);

/// Reads a manifest and opens each of its files. Returns nothing if the manifest is damaged or a
/// file is not as the manifest says; the files' contents are not verified, because that would take
/// reading all of them. Throws `CheckpointError` where the system refuses.
[[nodiscard]] std::optional<Manifest> read_whole(record::Folder& folder, std::uint64_t number);

/// Throws `Unsupported` if a newer version wrote the manifest. Ignores other faults, which the
/// caller finds when it reads the manifest.
void refuse_newer_version(record::Folder& folder, std::uint64_t number);

/// Writes a whole manifest under its unfinished name, syncs it, and notes its checksum in `id`.
/// Returns the size of the file in bytes. Throws `Damaged` for a manifest that a reader would
/// refuse.
std::uint64_t write_manifest(record::Folder& folder, Manifest& manifest);

/// Opens a data file of a manifest and checks its size and header.
[[nodiscard]] record::StoredFile open_data(record::Folder& folder, const DataFile& data);

/// Numbers of all manifests in a listing, highest first.
[[nodiscard]] std::vector<std::uint64_t> manifest_numbers(const std::vector<std::string>& names);

/// Removes old manifests beyond the newest `keep` whole ones, data that none of these names, and
/// files that crashed saves left. Removes nothing while a load is running in the directory, or if
/// any manifest cannot be read. The saver's lock must be held.
///
/// Never throws: a later save removes what stays.
void collect(record::Folder& folder, std::size_t keep) noexcept;

}  // namespace reprise::checkpoint
