#pragma once

#include <reprise/storage.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

// Saving a buffer to a directory and loading it again. docs/checkpoint_format.md describes the
// files.

namespace reprise {

/// A save or a load that did not happen. A failed save leaves every checkpoint that was in the
/// directory as it was; a failed load leaves every buffer as it was.
class CheckpointError : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t {
    Damaged,      ///< Bytes are not those that were written: a checksum, a length, a count.
    Missing,      ///< No checkpoint in the directory, or a file that one needs is not there.
    Unsupported,  ///< Written by a newer version of reprise.
    /// Whole, but of another schema or other options than asked for, or of options that this
    /// machine has not the address space for.
    Mismatch,
    Io,         ///< The operating system refused; `error_number` says why.
    Locked,     ///< Another save is at work in the same directory.
    Cancelled,  ///< The stop token of the options asked for it.
  };

  /// The message names all of it. `error_number`: an errno value, 0 if there is none.
  CheckpointError(Kind kind, const std::string& problem, const std::string& file = {},
                  std::uint64_t offset = 0, int error_number = 0);

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  /// The file or directory at fault, with its path; empty if there is none.
  [[nodiscard]] const std::string& file() const noexcept { return *file_; }
  /// Where in the file, in bytes; 0 if the whole of it is meant.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] int error_number() const noexcept { return error_number_; }

 private:
  // Shared, so that copying an exception cannot throw.
  std::shared_ptr<const std::string> file_;
  std::uint64_t offset_ = 0;
  int error_number_ = 0;
  Kind kind_;
};

/// How far a save has come.
struct SaveProgress {
  std::uint64_t bytes_written = 0;   ///< To files, compressed if compression is on.
  std::uint64_t chunks_written = 0;  ///< Chunks that were new or still open.
  std::uint64_t chunks_reused = 0;   ///< Chunks that an earlier checkpoint holds already.
  std::uint64_t chunks_total = 0;    ///< The most that the two can come to; 0 while unknown.
};

/// Whether the data of a checkpoint are compressed, by zstd (RFC 8878). Either can be loaded, and
/// one checkpoint may hold both.
struct Compression {
  /// 0: stored as they are; 1, the fastest, to 19: the level of zstd.
  int level = 0;

  friend bool operator==(const Compression&, const Compression&) = default;
};

class Sampler;

/// Bytes of your own that belong to a checkpoint, such as a learner's parameters and its
/// optimizer's: saved and loaded with the buffer, or not at all.
struct Attachment {
  std::string name;                  ///< 1 to 200 bytes, each name once.
  std::span<const std::byte> bytes;  ///< Unchanged while the save runs.
};
/// Those of a checkpoint, by name.
using Attachments = std::map<std::string, std::vector<std::byte>>;

/// Options of a save.
struct SaveOptions {
  Compression compression{};

  /// Checkpoints that stay in the directory, the new one included: 1 to 1000. An older one is what
  /// a load falls back to when the newest is damaged. They share the chunks that did not change, so
  /// they cost little, and damage to a shared chunk is damage to each.
  std::size_t keep = 2;

  /// Chunks that the previous checkpoint of the same buffer holds already are not written again.
  /// False writes everything, so that the new checkpoint shares nothing with the others.
  bool incremental = true;

  /// Called after each chunk that was written, by whichever thread wrote it; calls never overlap.
  /// It must not save the buffer, nor wait for oneTBB. What it throws ends the save.
  // NOLINTNEXTLINE(readability-redundant-member-init): else g++ warns users.
  std::function<void(const SaveProgress&)> progress = {};

  /// Ends the save with `CheckpointError::Kind::Cancelled`; looked at after every 256 KiB.
  std::stop_token stop = {};  // NOLINT(readability-redundant-member-init): else g++ warns users.

  /// Samplers whose random generators are saved too, for `SamplerOptions::resume`. None of them may
  /// be in a call meanwhile.
  // NOLINTNEXTLINE(readability-redundant-member-init): else g++ warns users.
  std::vector<const Sampler*> samplers = {};

  // NOLINTNEXTLINE(readability-redundant-member-init): else g++ warns users.
  std::vector<Attachment> attachments = {};
};

/// What a save did.
struct SaveResult {
  std::uint64_t manifest = 0;        ///< The number of the checkpoint, higher than all before it.
  std::uint64_t bytes_written = 0;   ///< To files, headers and the manifest included.
  std::uint64_t chunks_written = 0;  ///< Chunks that were new or still open.
  std::uint64_t chunks_reused = 0;   ///< Chunks that an earlier checkpoint holds already.
  /// Of the reused chunks those that were copied, to give back the room of files mostly unused.
  std::uint64_t chunks_moved = 0;
};

/// A checkpoint that a load passed over, for an older one.
struct SkippedCheckpoint {
  std::uint64_t manifest = 0;  ///< Its number.
  CheckpointError error;       ///< Why: which file, where.
};

/// Options of a load.
struct LoadOptions {
  /// Gets what was passed over because it was damaged, and why. Null: nobody is told, but by
  /// `CheckpointError` if nothing is left.
  std::vector<SkippedCheckpoint>* skipped = nullptr;
  /// Ends the load with `CheckpointError::Kind::Cancelled`; looked at after every 256 KiB while
  /// files are verified, the first half of the work, and then before each chunk that is read.
  std::stop_token stop = {};  // NOLINT(readability-redundant-member-init): else g++ warns users.
  /// Where `ReplayBuffer::load` puts the rows, wherever they were when they were saved. `restore`
  /// keeps the storage of its buffer.
  Storage storage = Memory{};
  /// Gets the attachments of the checkpoint, in place of what it had. Null: nobody does.
  Attachments* attachments = nullptr;
};

}  // namespace reprise
