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
/// Thread safety: any thread, each with a `Reader` of its own.
class Snapshot {
 public:
  Snapshot(std::shared_ptr<record::Folder> folder, std::shared_ptr<record::Lock> lock,
           ReadManifest read)
      : folder_(std::move(folder)), lock_(std::move(lock)), read_(std::move(read)) {}

  /// What the next save of the same buffer takes as its base.
  [[nodiscard]] const ManifestId& id() const noexcept { return read_.id; }
  /// Whether no save removes its files while it exists. A user without the right to make the lock,
  /// for one, has to do without.
  [[nodiscard]] bool locked() const noexcept { return lock_ != nullptr; }
  /// In the order in which they lie on the disk, the quickest to read them in.
  [[nodiscard]] std::span<const ChunkEntry> chunks() const noexcept {
    return read_.manifest.chunks;
  }
  [[nodiscard]] std::span<const StateEntry> states() const noexcept {
    return read_.manifest.states;
  }
  [[nodiscard]] const std::vector<DataFile>& files() const noexcept { return read_.manifest.files; }
  /// Null if there is none of this name.
  [[nodiscard]] const StateEntry* find_state(std::string_view name) const noexcept;

  /// Throws `Missing` if there is none of this name.
  [[nodiscard]] const StateEntry& state(std::string_view name) const;
  /// Of the file that a record is in.
  [[nodiscard]] std::string path_of(const RecordRef& at) const {
    return folder_->path_of(data_name(files()[at.file].name));
  }

  /// Reads everything, in parallel where it is much, and compares every checksum. Throws
  /// `CheckpointError`: `Damaged`, `Missing`, `Io`, `Cancelled`.
  void verify(const std::stop_token& stop = {}) const;

 private:
  friend class Reader;
  /// All records of one file.
  void verify_file(std::uint32_t file, std::span<const RecordRef> records,
                   std::span<const record::RecordId> ids, const std::stop_token& stop) const;

  std::shared_ptr<record::Folder> folder_;
  std::shared_ptr<record::Lock> lock_;
  ReadManifest read_;
};

/// Reads chunks and states of a snapshot, whose checksums it compares again: files may change after
/// they were verified. Holds two blocks in memory and one file open.
///
/// Thread safety: one thread at a time. The snapshot must outlive it.
class Reader {
 public:
  explicit Reader(const Snapshot& snapshot) noexcept : snapshot_(&snapshot) {}

  /// Calls `sink` with the bytes in turn. Only once it has returned were all of them right.
  void chunk(const ChunkEntry& chunk, const record::RecordReader::Sink& sink);
  void state(const StateEntry& state, const record::RecordReader::Sink& sink);

  /// Fills the rooms one after the other; throws `Damaged` unless they are as large as the chunk.
  void chunk(const ChunkEntry& chunk, std::span<const record::Room> rooms);
  void state(const StateEntry& state, std::span<const record::Room> rooms);

  /// The whole of a state; throws `Missing` if there is none of this name.
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
  Everything,  ///< Before the snapshot is given out.
  Manifest,    ///< Data are verified as they are read.
};

struct OpenOptions {
  Limits limits{};
  Verify verify = Verify::Everything;
  /// Only checkpoints of lower numbers, for who found one of them damaged later.
  std::optional<std::uint64_t> before = {};  // NOLINT(readability-redundant-member-init): as below.
  std::stop_token stop = {};  // NOLINT(readability-redundant-member-init): else g++ warns.
};

/// Whether an older checkpoint may take the place of one that fails like this: it is damaged, lacks
/// something, or the disk cannot read it (EIO).
[[nodiscard]] bool may_fall_back(const CheckpointError& error) noexcept;

/// The newest checkpoint of a directory that is whole. A damaged one, one that lacks a file, or one
/// that the disk cannot read (EIO) is passed over for the one before and added to `skipped`. If
/// none is whole, throws the error of the newest. Throws `Missing` if there is none at all,
/// `Unsupported` if the newest is of a newer version: an older one in its place would be a loss
/// that nobody sees.
[[nodiscard]] Snapshot open_latest(record::FileSystem& file_system, const std::string& directory,
                                   const OpenOptions& options = {},
                                   std::vector<SkippedCheckpoint>* skipped = nullptr);

}  // namespace reprise::checkpoint
