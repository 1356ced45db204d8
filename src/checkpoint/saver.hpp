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

/// One save: data are written beside those of earlier checkpoints, and `commit` makes them the
/// newest. Destroyed without it, or after any of its calls threw, a saver leaves the checkpoints of
/// the directory as they were.
///
/// Order on the disk: data, synced; their names, synced; the manifest under another name, synced;
/// its renaming, synced. Only then is the save acknowledged, and only after that are older
/// manifests removed; once that is on the disk, the data that no manifest names.
///
/// What is in memory: a block per thread, and the table of chunks, some 100 bytes each.
///
/// Thread safety: `reuse_chunk`, `write_chunk` and `write_state` any thread; the rest one thread,
/// when no other call is at work.
class Saver {
 public:
  /// `base`: the checkpoint whose closed chunks are those of this buffer, that is the one that it
  /// saved last or was loaded from. One of the same number and another checksum is somebody else's:
  /// then, and if it is damaged or gone, everything is written. `full_bytes`: from which size on a
  /// data file is full, so that tests need not write much to fill several.
  ///
  /// Throws `CheckpointError`: `Locked` while another saver is at work there, `Unsupported` if
  /// there is a checkpoint of a newer version, `Io`. Throws `std::invalid_argument` for options
  /// out of range.
  Saver(record::FileSystem& file_system, const std::string& directory, SaveOptions options,
        std::optional<ManifestId> base = {}, std::uint64_t full_bytes = Segments::kFullBytes);
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// That the new checkpoint will have.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

  /// For `SaveProgress::chunks_total`.
  void announce(std::uint64_t chunks) REPRISE_EXCLUDES(mutex_);

  /// Whether the base holds this chunk, closed, with the same index, generation and rows: it is
  /// then part of the new checkpoint, too. If not, it has to be written.
  [[nodiscard]] bool reuse_chunk(const ChunkId& id) REPRISE_EXCLUDES(mutex_);

  /// Writes the parts one after the other as a chunk's bytes; they must not change meanwhile. Each
  /// index once. Throws `CheckpointError` (`Io`, `Cancelled`), `std::bad_alloc`.
  void write_chunk(const ChunkId& id, std::span<const record::Bytes> parts)
      REPRISE_EXCLUDES(mutex_);

  /// The same for something with a name of 1 to 255 bytes; each name once.
  void write_state(const std::string& name, std::span<const record::Bytes> parts)
      REPRISE_EXCLUDES(mutex_);

  /// Publishes all of it. Once this has returned, the checkpoint survives a crash. If it throws,
  /// the new checkpoint may be there or not, and is whole if it is. Throws `std::logic_error`, and
  /// publishes nothing, after a write that threw.
  SaveResult commit() REPRISE_EXCLUDES(mutex_);

  /// The checkpoint that `commit` made: the base of the next.
  [[nodiscard]] const ManifestId& id() const noexcept { return id_; }

 private:
  /// A record of the new checkpoint, in a file of this or an earlier save.
  struct Placed {
    DataName file;
    record::RecordPlace place;
  };
  struct PlacedChunk {
    ChunkId id;
    Placed at;
    bool reused = false;
  };
  struct PlacedState {
    std::string name;
    Placed at;
  };

  void choose_number(const std::vector<std::string>& names);
  void read_base(const std::optional<ManifestId>& base);
  void begin_write() REPRISE_EXCLUDES(mutex_);
  /// Copies what is left in use of files that are mostly not, so that they can be removed.
  void move_out_of_sparse_files() REPRISE_REQUIRES(mutex_);
  [[nodiscard]] Manifest make_manifest(const std::vector<DataFile>& written)
      REPRISE_REQUIRES(mutex_);
  void publish(const Manifest& manifest) REPRISE_REQUIRES(mutex_);

  const SaveOptions options_;
  record::Folder folder_;
  std::unique_ptr<record::Lock> lock_;
  std::uint64_t number_ = 1;
  std::unordered_map<std::uint32_t, ChunkEntry> closed_in_base_;  ///< By index.
  std::vector<DataFile> base_files_;
  std::unique_ptr<Segments> segments_;
  ManifestId id_;

  base::Mutex mutex_;
  std::vector<PlacedChunk> chunks_ REPRISE_GUARDED_BY(mutex_);
  std::vector<PlacedState> states_ REPRISE_GUARDED_BY(mutex_);
  SaveProgress progress_ REPRISE_GUARDED_BY(mutex_);
  SaveResult result_ REPRISE_GUARDED_BY(mutex_);
  /// Begun and not, or not yet, done: what `commit` would publish lacks them.
  std::size_t unfinished_writes_ REPRISE_GUARDED_BY(mutex_) = 0;
};

}  // namespace reprise::checkpoint
