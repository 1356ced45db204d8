#pragma once

#include <reprise/storage.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
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

/// A save or a load failed. A failed save leaves every checkpoint in the directory as it was; a
/// failed load leaves every buffer as it was.
class CheckpointError : public std::runtime_error {
 public:
  /// Why a save or a load failed.
  enum class Kind : std::uint8_t {
    Damaged,      ///< The bytes are not those written: a checksum, length or count is wrong.
    Missing,      ///< The directory has no checkpoint, or a checkpoint lacks a file.
    Unsupported,  ///< Written by a newer version of reprise.
    /// The checkpoint has another schema or other options than asked for, or is too large for the
    /// address space of this machine.
    Mismatch,
    Io,         ///< The operating system refused; `error_number` says why.
    Locked,     ///< Another save is at work in the same directory.
    Cancelled,  ///< Stop was requested by the token in the options.
  };

  /// The message names all arguments. `error_number`: an errno value, 0 if there is none.
  CheckpointError(Kind kind, const std::string& problem, const std::string& file = {},
                  std::uint64_t offset = 0, int error_number = 0);

  /// The kind of failure.
  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  /// The file or directory at fault, with its path; empty if there is none.
  [[nodiscard]] const std::string& file() const noexcept { return *file_; }
  /// Place of the fault in the file, in bytes; 0 if it is the whole file.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  /// The errno value; 0 if there is none.
  [[nodiscard]] int error_number() const noexcept { return error_number_; }

 private:
  // Shared, so that copying an exception cannot throw.
  std::shared_ptr<const std::string> file_;
  std::uint64_t offset_ = 0;
  int error_number_ = 0;
  Kind kind_;
};

/// The progress of a save.
struct SaveProgress {
  std::uint64_t bytes_written = 0;   ///< Bytes written to files, after compression.
  std::uint64_t chunks_written = 0;  ///< Chunks that were new or still open.
  std::uint64_t chunks_reused = 0;   ///< Chunks that an earlier checkpoint has already.
  /// The most that chunks_written + chunks_reused can reach; 0 while unknown.
  std::uint64_t chunks_total = 0;
};

/// Whether steps and their priorities are compressed, by zstd (RFC 8878). Both forms can be loaded,
/// and one checkpoint may hold both. Attachments and what selectors store of items (4 bytes per
/// item and selector) are not compressed, so that a load takes no more memory for them than the
/// files have bytes.
struct Compression {
  /// 0: stored as they are; 1, the fastest, to 19: the level of zstd.
  int level = 0;

  friend bool operator==(const Compression&, const Compression&) = default;
};

class ReplayBuffer;
class Sampler;

/// Your own bytes that belong to a checkpoint, such as a learner's parameters: saved and loaded
/// with the buffer, or not at all.
struct Attachment {
  std::string name;                  ///< 1 to 200 bytes without a NUL, each name once.
  std::span<const std::byte> bytes;  ///< Must not change while the save runs.
};
/// The attachments of a checkpoint, by name.
using Attachments = std::map<std::string, std::vector<std::byte>>;

/// Options of a save.
struct SaveOptions {
  Compression compression{};  ///< How the files are compressed; not at all by default.

  /// Checkpoints that stay in the directory, the new one included: 1 to 1000. A load falls back to
  /// an older one if the newest is damaged. Checkpoints share the chunks that did not change, so
  /// they cost little, and damage to a shared chunk damages each of them. Those of another run in
  /// the directory count too, and a load may fall back to them: use a directory for each run.
  std::size_t keep = 2;

  /// If true, chunks that the previous checkpoint of this buffer has are not written again, unless
  /// values of a mutable column were replaced in them. False writes everything, so that the new
  /// checkpoint shares nothing with the others.
  ///
  /// A save that finds the files of the previous checkpoint damaged begins again, and writes
  /// everything; `progress` then counts from 0. If the disk cannot read these files (EIO), the save
  /// fails, and the next save writes everything.
  bool incremental = true;

  /// The pace of the save, in bytes of steps per second before compression; 0: as fast as it can.
  /// A save streams the rows through the processor's caches, which slows samples of large rows; at
  /// 100 MB/s samples are hardly slower. A save with a pace takes longer: one thread writes, and
  /// sleeps between chunks. More chunks may be evicted before the save reaches them; these are left
  /// out.
  std::uint64_t bytes_per_second = 0;

  /// Called after each chunk that was written, by the thread that wrote it; calls never overlap.
  /// The function must not save the buffer, nor wait for oneTBB. An exception from it ends the
  /// save.
  // NOLINTNEXTLINE(readability-redundant-member-init): else g++ warns users.
  std::function<void(const SaveProgress&)> progress = {};

  /// A stop request ends the save with `CheckpointError::Kind::Cancelled`; checked after every 256
  /// KiB.
  std::stop_token stop = {};  // NOLINT(readability-redundant-member-init): else g++ warns users.

  /// Samplers whose random generators are saved too, for `SamplerOptions::resume`. None of these
  /// samplers may be in a call during the save.
  // NOLINTNEXTLINE(readability-redundant-member-init): else g++ warns users.
  std::vector<const Sampler*> samplers = {};

  // NOLINTNEXTLINE(readability-redundant-member-init): else g++ warns users.
  /// Your own bytes, kept with the checkpoint.
  std::vector<Attachment> attachments = {};
};

/// The outcome of a save.
struct SaveResult {
  std::uint64_t manifest = 0;        ///< The number of the checkpoint, higher than all before it.
  std::uint64_t bytes_written = 0;   ///< Bytes written to files, with headers and the manifest.
  std::uint64_t chunks_written = 0;  ///< Chunks that were new or still open.
  std::uint64_t chunks_reused = 0;   ///< Chunks that an earlier checkpoint has already.
  /// Reused chunks that were copied, to free files that are mostly unused.
  std::uint64_t chunks_moved = 0;
  /// Steps that the checkpoint lacks, because they were evicted before the save reached their
  /// chunk.
  std::uint64_t left_out_steps = 0;
};

/// Options of an `Autosave`.
struct AutosaveOptions {
  /// Time from the beginning of one save to that of the next, above 0. If a save takes longer, the
  /// next one follows at once. So a crash loses at most the steps of about twice this time.
  std::chrono::nanoseconds every = std::chrono::seconds(2);
  Compression compression{};           ///< As `SaveOptions::compression`.
  std::size_t keep = 2;                ///< As `SaveOptions::keep`.
  std::uint64_t bytes_per_second = 0;  ///< As `SaveOptions::bytes_per_second`.
};

/// What an `Autosave` has done.
struct AutosaveStatus {
  std::uint64_t saves = 0;     ///< Checkpoints that were written.
  std::uint64_t failures = 0;  ///< Saves that failed, each of which was tried again.
  SaveResult last;             ///< The last save that succeeded; `manifest` is 0 before the first.
  std::string problem;         ///< Why the last save failed; empty if it succeeded.
};

/// Saves a buffer to a directory again and again, on a thread that the user gives it. Each save
/// writes what is new, as `ReplayBuffer::save` does. `Stats::unsaved_steps` says how much a crash
/// at this moment would lose (and counts up to n_step - 1 saved steps of each open episode). A save
/// that fails, for example because the disk is full, leaves the earlier checkpoints as they were
/// and is tried again.
///
/// Thread safety: every method from any thread, but `run` from one at a time. Lifetime: may outlive
/// the buffer; after `ReplayBuffer::restore` make another one.
class Autosave {
 public:
  /// Errors: `std::invalid_argument` for options out of range.
  Autosave(ReplayBuffer& buffer, const std::filesystem::path& directory,
           const AutosaveOptions& options = {});
  ~Autosave();
  Autosave(const Autosave&) = delete;
  Autosave& operator=(const Autosave&) = delete;

  /// Saves until stop is requested. The request ends a save under way; then a last save runs at
  /// full speed. While nothing changes in the buffer, no save is written. Errors: those of the last
  /// save, and `std::logic_error` in a forked child.
  void run(std::stop_token stop);
  /// The counts and results of the saves so far.
  [[nodiscard]] AutosaveStatus status() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// A checkpoint that a load skipped for an older one.
struct SkippedCheckpoint {
  std::uint64_t manifest = 0;  ///< The number of the manifest.
  CheckpointError error;       ///< The reason: which file, where.
};

/// Options of a load.
struct LoadOptions {
  /// A stop request ends the load with `CheckpointError::Kind::Cancelled`; checked after every 256
  /// KiB while files are verified, the first half of the work, and then before each chunk that is
  /// read.
  std::stop_token stop = {};  // NOLINT(readability-redundant-member-init): else g++ warns users.
  /// The storage of the rows of `ReplayBuffer::load`, whatever it was when they were saved.
  /// `restore` keeps the storage of its buffer.
  Storage storage = Memory{};
};

/// What `ReplayBuffer::restore` returns; the items are in the buffer.
struct RestoreResult {
  /// The checkpoints that were skipped because they were damaged, and why. If no checkpoint is
  /// whole, the call throws `CheckpointError` instead.
  std::vector<SkippedCheckpoint> skipped;
  Attachments attachments;  ///< The attachments of the checkpoint.
};

}  // namespace reprise
