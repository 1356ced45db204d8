#pragma once

#include <reprise/checkpoint.hpp>

#include "checkpoint/manifest.hpp"
#include "record/file_system.hpp"
#include "record/files.hpp"
#include "record/record_reader.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::checkpoint {

/// A checkpoint that can be read. While it exists, no save removes its files.
///
/// Thread safety: any thread, each with its own `Reader`.
class Snapshot {
 public:
  Snapshot(std::shared_ptr<record::Folder> folder, std::shared_ptr<record::Lock> lock,
           Manifest manifest)
      : folder_(std::move(folder)), lock_(std::move(lock)), manifest_(std::move(manifest)) {}

  /// The base of the next save of the same buffer.
  [[nodiscard]] const ManifestId& id() const noexcept { return manifest_.id; }
  /// Chunks by their place on the disk, the fastest order to read them in.
  [[nodiscard]] std::span<const ChunkEntry> chunks() const noexcept { return manifest_.chunks; }
  [[nodiscard]] std::span<const StateEntry> states() const noexcept { return manifest_.states; }
  [[nodiscard]] const DataFiles& files() const noexcept { return manifest_.files; }
  /// Throws `Missing` if there is no such state.
  [[nodiscard]] const StateEntry& state(std::string_view name) const;
  /// Path of the file that has a record.
  [[nodiscard]] std::string path_of(const RecordRef& at) const {
    return folder_->path_of(data_name(at.file));
  }

  /// Reads everything, large data in parallel, and compares every checksum. Throws
  /// `CheckpointError`: `Damaged` if one differs, `Missing` if a file is gone, `Io` if the system
  /// refuses, `Cancelled` if stop is requested.
  void verify(const std::stop_token& stop = {}) const;

 private:
  friend class Reader;

  std::shared_ptr<record::Folder> folder_;
  std::shared_ptr<record::Lock> lock_;
  Manifest manifest_;
};

/// Reads chunks and states of a snapshot and compares their checksums again, because files may
/// change after they were verified. Holds two blocks in memory and one file open.
///
/// Thread safety: one thread at a time. The snapshot must outlive it.
class Reader {
 public:
  explicit Reader(const Snapshot& snapshot) noexcept : snapshot_(&snapshot) {}

  /// Calls `sink` with block after block. All bytes are verified only once the call has returned.
  void read(const RecordRef& at, const record::RecordReader::Sink& sink) {
    records_.read(file(at.file), at.place, sink);
  }

  /// Fills the rooms one after the other; throws `Damaged` unless they have the size of the chunk.
  void read_chunk(const ChunkEntry& read_chunk, std::span<const record::WritableBytes> rooms);

  /// Reads a whole state; throws `Missing` if there is no such state.
  [[nodiscard]] std::vector<std::byte> read_state(std::string_view name);

 private:
  record::StoredFile& file(const DataName& name);

  const Snapshot* snapshot_;
  record::RecordReader records_;
  std::optional<record::StoredFile> file_;
  DataName open_file_;
};

/// Whether the files of a checkpoint are at fault: damaged, missing, or not to be read by the disk
/// (EIO). A load then takes an older checkpoint.
[[nodiscard]] bool is_fault_of_files(const CheckpointError& error) noexcept;

/// The newest checkpoint of a directory that is whole (verified) and that `use` did not refuse. A
/// checkpoint that is damaged, lacks a file, or cannot be read by the disk (EIO) is skipped for the
/// one before and added to `skipped`; so is one for which `use` throws such an error.
///
/// If no checkpoint is whole, throws the error of the newest. If an older one fails for another
/// reason, throws the error of the newest, too, unless that reason is `Cancelled` or an error of
/// the system. Throws `Missing` if there is no checkpoint, and `Unsupported` if a newer version of
/// reprise wrote the newest, because an older one in its place would be an unnoticed loss.
[[nodiscard]] Snapshot open_latest(record::FileSystem& file_system, const std::string& directory,
                                   const std::stop_token& stop = {},
                                   std::vector<SkippedCheckpoint>* skipped = nullptr,
                                   const std::function<void(const Snapshot&)>& use = {});

}  // namespace reprise::checkpoint
