#pragma once

#include <reprise/checkpoint.hpp>

#include "base/mutex.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/segments.hpp"
#include "record/file_system.hpp"
#include "record/files.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace reprise::checkpoint {

/// Returns the options. Throws `std::invalid_argument` if they are out of range.
[[nodiscard]] SaveOptions checked(SaveOptions options);

/// One save: data is written beside the data of earlier checkpoints, and `commit` makes of it the
/// newest checkpoint. A saver that is destroyed without `commit` leaves the checkpoints of the
/// directory as they were; a caller that catches what another call threw has to destroy the saver.
///
/// Steps on the disk: data, synced; their names, synced; the manifest under another name, synced;
/// its rename, synced. Only then is the save acknowledged. After that older manifests are removed,
/// and once their removal is on the disk, the data that no manifest names.
///
/// Memory: a block per thread, one chunk while data moves out of a file that is mostly unused, and
/// the table of chunks, some 100 bytes each.
///
/// Thread safety: `reuse_chunk`, `write_chunk` and `write_state` from any thread; all others from
/// one thread, while no other call runs.
class Saver {
 public:
  /// `base`: the checkpoint that has the closed chunks of this buffer: the one that it saved last
  /// or was loaded from. A checkpoint with this number and another checksum belongs to another
  /// buffer; then, and if the base is damaged or gone, everything is written. `full_bytes`: the
  /// size from which a data file is full; tests make it small.
  ///
  /// Throws `CheckpointError`: `Locked` while another saver works in the directory, `Unsupported`
  /// if a checkpoint there is of a newer version, `Io` if the system refuses. Throws
  /// `std::invalid_argument` for options out of range.
  Saver(record::FileSystem& file_system, const std::string& directory, SaveOptions options,
        std::optional<ManifestId> base = {}, std::uint64_t full_bytes = Segments::kFullBytes);

  /// The number that the new checkpoint will have.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

  /// Sets `SaveProgress::chunks_total`.
  void announce(std::uint64_t chunks) REPRISE_EXCLUDES(mutex_);

  /// Returns whether the base has this chunk, closed, with the same index, generation and rows. If
  /// so, the chunk is now part of the new checkpoint, too; otherwise the caller has to write it.
  [[nodiscard]] bool reuse_chunk(const ChunkId& id) REPRISE_EXCLUDES(mutex_);

  /// Writes the parts one after the other as the bytes of a chunk; each index once. Throws
  /// `CheckpointError` if the system refuses (`Io`) or stop is requested (`Cancelled`), and
  /// `std::bad_alloc`.
  void write_chunk(const ChunkId& id, std::span<const record::Bytes> parts)
      REPRISE_EXCLUDES(mutex_);

  /// Writes the parts as the bytes of a state with a name of 1 to 255 bytes; each name once.
  void write_state(const std::string& name, std::span<const record::Bytes> parts)
      REPRISE_EXCLUDES(mutex_);

  /// Publishes the checkpoint; every write must have succeeded. Once the call has returned, the
  /// checkpoint survives a crash. If the call throws, the checkpoint may exist or not, and is whole
  /// if it exists.
  SaveResult commit() REPRISE_EXCLUDES(mutex_);

  /// The checkpoint that `commit` made: the base of the next.
  [[nodiscard]] ManifestId id() REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    return manifest_.id;
  }

 private:
  void choose_number(const std::vector<std::string>& names);
  void read_base(const std::optional<ManifestId>& base);
  /// Copies the used parts of files that are mostly unused, so that these can be removed. Returns
  /// the number of chunks copied.
  std::uint64_t move_out_of_sparse_files() REPRISE_REQUIRES(mutex_);
  /// Enters the files of all records in the manifest, and sorts the records.
  void complete_manifest(const DataFiles& written) REPRISE_REQUIRES(mutex_);
  /// Writes the manifest under its final name. Returns its size in bytes.
  std::uint64_t publish() REPRISE_REQUIRES(mutex_);

  const SaveOptions options_;
  record::Folder folder_;
  std::unique_ptr<record::Lock> lock_;
  std::uint64_t number_ = 1;
  std::unordered_map<std::uint32_t, ChunkEntry> closed_in_base_;  ///< The key is the chunk's index.
  DataFiles base_files_;
  std::unique_ptr<Segments> segments_;

  base::Mutex mutex_;
  Manifest manifest_ REPRISE_GUARDED_BY(mutex_);
  SaveProgress progress_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::checkpoint
