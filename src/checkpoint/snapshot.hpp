#pragma once

#include <reprise/checkpoint.hpp>

#include "checkpoint/manifest.hpp"
#include "record/file_system.hpp"
#include "record/files.hpp"
#include "record/record_reader.hpp"

#include <cstddef>
#include <cstdint>
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
           ReadManifest read)
      : folder_(std::move(folder)), lock_(std::move(lock)), read_(std::move(read)) {}

  /// The base of the next save of the same buffer.
  [[nodiscard]] const ManifestId& id() const noexcept { return read_.id; }
  /// True if no save removes its files while it exists. False, for example, for a user without the
  /// right to make the lock.
  [[nodiscard]] bool locked() const noexcept { return lock_ != nullptr; }
  /// Chunks by their place on the disk, the fastest sequence to read them.
  [[nodiscard]] std::span<const ChunkEntry> chunks() const noexcept {
    return read_.manifest.chunks;
  }
  [[nodiscard]] std::span<const StateEntry> states() const noexcept {
    return read_.manifest.states;
  }
  [[nodiscard]] const std::vector<DataFile>& files() const noexcept { return read_.manifest.files; }
  /// Null if there is no such state.
  [[nodiscard]] const StateEntry* find_state(std::string_view name) const noexcept;

  /// Throws `Missing` if there is no such state.
  [[nodiscard]] const StateEntry& state(std::string_view name) const;
  /// Path of the file that has a record.
  [[nodiscard]] std::string path_of(const RecordRef& at) const {
    return folder_->path_of(data_name(files()[at.file].name));
  }

  /// Reads everything, large data in parallel, and compares every checksum. Throws
  /// `CheckpointError`: `Damaged`, `Missing`, `Io`, `Cancelled`.
  void verify(const std::stop_token& stop = {}) const;

 private:
  friend class Reader;
  /// Verifies all records of one file.
  void verify_file(std::uint32_t file, std::span<const RecordRef> records,
                   std::span<const record::RecordId> ids, const std::stop_token& stop) const;

  std::shared_ptr<record::Folder> folder_;
  std::shared_ptr<record::Lock> lock_;
  ReadManifest read_;
};

/// Reads chunks and states of a snapshot and compares their checksums again, because files may
/// change after they were verified. Holds two blocks in memory and one file open.
///
/// Thread safety: one thread at a time. The snapshot must outlive it.
class Reader {
 public:
  explicit Reader(const Snapshot& snapshot) noexcept : snapshot_(&snapshot) {}

  /// Calls `sink` with the bytes in turn. They are all verified only once the call has returned.
  void chunk(const ChunkEntry& chunk, const record::RecordReader::Sink& sink);
  void state(const StateEntry& state, const record::RecordReader::Sink& sink);

  /// Fills the rooms one after the other; throws `Damaged` unless they have the size of the chunk.
  void chunk(const ChunkEntry& chunk, std::span<const record::Room> rooms);
  void state(const StateEntry& state, std::span<const record::Room> rooms);

  /// Reads a whole state; throws `Missing` if there is no such state.
  [[nodiscard]] std::vector<std::byte> state(std::string_view name);

 private:
  void read(const RecordRef& at, const record::RecordId& id,
            const record::RecordReader::Sink& sink);
  void read(const RecordRef& at, const record::RecordId& id, std::span<const record::Room> rooms);
  record::StoredFile& file(std::uint32_t number);

  const Snapshot* snapshot_;
  record::RecordReader records_;
  std::optional<record::StoredFile> file_;
  std::uint32_t open_file_ = 0;
};

enum class Verify : std::uint8_t {
  Everything,  ///< Everything is verified before the snapshot is returned.
  Manifest,    ///< Data is verified as it is read.
};

struct OpenOptions {
  Limits limits{};
  Verify verify = Verify::Everything;
  /// Only checkpoints with lower numbers, for a caller that found one of them damaged later.
  std::optional<std::uint64_t> before = {};  // NOLINT(readability-redundant-member-init): as below.
  std::stop_token stop = {};  // NOLINT(readability-redundant-member-init): else g++ warns.
};

/// Whether an older checkpoint may replace one that fails with this error: it is damaged, lacks a
/// file, or the disk cannot read it (EIO).
[[nodiscard]] bool may_fall_back(const CheckpointError& error) noexcept;

/// The newest whole checkpoint of a directory. A checkpoint that is damaged, lacks a file, or
/// cannot be read by the disk (EIO) is skipped for the one before and added to `skipped`. If none
/// is whole, throws the error of the newest. Throws `Missing` if there is no checkpoint, and
/// `Unsupported` if the newest is of a newer version, because an older one in its place would be an
/// unnoticed loss.
[[nodiscard]] Snapshot open_latest(record::FileSystem& file_system, const std::string& directory,
                                   const OpenOptions& options = {},
                                   std::vector<SkippedCheckpoint>* skipped = nullptr);

}  // namespace reprise::checkpoint
