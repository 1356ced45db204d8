#pragma once

#include "checkpoint/names.hpp"
#include "record/bytes.hpp"
#include "record/files.hpp"
#include "record/format.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace reprise::checkpoint {

/// Limits of what a reader accepts. By default everything that can be written.
struct Limits {
  std::uint32_t max_chunks = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t max_chunk_bytes = std::uint64_t{1} << 40U;  ///< Uncompressed.
  std::uint64_t max_state_bytes = std::uint64_t{1} << 40U;  ///< Uncompressed, of one state.
  std::uint64_t max_manifest_bytes = std::uint64_t{1} << 34U;
};

/// A chunk as it was when it was saved. A closed chunk never changes: within one buffer, the same
/// index, generation and rows mean the same bytes.
struct ChunkId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  std::uint32_t rows = 0;
  bool closed = false;

  friend bool operator==(const ChunkId&, const ChunkId&) = default;
};

/// The place of a record: which of the manifest's files, and where in it.
struct RecordRef {
  std::uint32_t file = 0;
  record::RecordPlace place;

  friend bool operator==(const RecordRef&, const RecordRef&) = default;
};

struct DataFile {
  DataName name;
  std::uint64_t size = 0;  ///< Bytes. A data file never changes once a manifest names it.

  friend bool operator==(const DataFile&, const DataFile&) = default;
};

struct ChunkEntry {
  ChunkId id;
  RecordRef at;
};

struct StateEntry {
  std::string name;
  RecordRef at;
};

inline constexpr std::size_t kMaxStateName = 255;

/// The contents of one checkpoint.
struct Manifest {
  std::uint64_t number = 0;
  std::vector<DataFile> files;     ///< Each is used.
  std::vector<ChunkEntry> chunks;  ///< Chunks by their place in the files.
  std::vector<StateEntry> states;  ///< By name.
};

[[nodiscard]] std::vector<std::byte> encode(const Manifest& manifest);

/// Throws `Damaged` unless every entry is possible: files known, records within them and apart from
/// each other, lengths within the limits, nothing named twice.
[[nodiscard]] Manifest decode_manifest(record::Bytes bytes, std::uint64_t number,
                                       const std::string& file, const Limits& limits);

/// A manifest that has been read, and its identity.
struct ReadManifest {
  Manifest manifest;
  ManifestId id;
};

/// Reads and checks a manifest, but not the files that it names. Throws `CheckpointError`.
[[nodiscard]] ReadManifest read_manifest(record::Folder& folder, std::uint64_t number,
                                         const Limits& limits);

/// Throws `Unsupported` if a newer version wrote the manifest. The caller finds other faults when
/// it reads it.
void refuse_newer_version(record::Folder& folder, std::uint64_t number);

/// Writes a whole manifest under its unfinished name and syncs it. Throws `Damaged` for a manifest
/// that a reader would refuse.
ManifestId write_manifest(record::Folder& folder, const Manifest& manifest,
                          std::uint64_t& bytes_written);

/// Opens a data file of a manifest and checks its size and header.
[[nodiscard]] record::StoredFile open_data(record::Folder& folder, const DataFile& data);

/// Numbers of all manifests in a listing, highest first.
[[nodiscard]] std::vector<std::uint64_t> manifest_numbers(const std::vector<std::string>& names);

}  // namespace reprise::checkpoint
