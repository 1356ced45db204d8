#include "checkpoint/snapshot.hpp"
#include "record/errors.hpp"

#include <cerrno>
#include <optional>
#include <utility>

namespace reprise::checkpoint {
namespace {

/// Listings that may be out of date before the last one is accepted.
constexpr int kMaxListings = 4;

class Opening {
 public:
  Opening(record::FileSystem& file_system, const std::string& directory, const OpenOptions& options)
      : options_(options),
        folder_(std::make_shared<record::Folder>(file_system, directory, record::IfAbsent::Fail)),
        lock_(folder_->try_lock_shared(kReadersLock)) {}

  /// The newest whole checkpoint of the listing; nothing if none is whole.
  std::optional<Snapshot> try_all(const std::vector<std::uint64_t>& numbers,
                                  std::vector<SkippedCheckpoint>& skipped) {
    for (const std::uint64_t number : numbers) {
      if (options_.before && number >= *options_.before) {
        continue;
      }
      try {
        Snapshot snapshot(folder_, lock_, read_manifest(*folder_, number, options_.limits));
        if (options_.verify == Verify::Everything) {
          snapshot.verify(options_.stop);
        }
        return snapshot;
      } catch (const CheckpointError& error) {
        if (!may_fall_back(error)) {
          throw;
        }
        skipped.push_back({number, error});
      }
    }
    return std::nullopt;
  }

  std::vector<std::uint64_t> list() { return manifest_numbers(folder_->list()); }

  /// True if no save removes files during the load.
  [[nodiscard]] bool locked() const noexcept { return lock_ != nullptr; }
  [[nodiscard]] const std::string& path() const noexcept { return folder_->path(); }

 private:
  const OpenOptions& options_;
  std::shared_ptr<record::Folder> folder_;
  std::shared_ptr<record::Lock> lock_;
};

}  // namespace

bool may_fall_back(const CheckpointError& error) noexcept {
  switch (error.kind()) {
    case CheckpointError::Kind::Damaged:
    case CheckpointError::Kind::Missing:
      return true;
    case CheckpointError::Kind::Io:
      // The disk cannot read the file. Other errors, such as too many open files, are not the fault
      // of the checkpoint.
      return error.error_number() == EIO;
    case CheckpointError::Kind::Unsupported:
    case CheckpointError::Kind::Mismatch:
    case CheckpointError::Kind::Locked:
    case CheckpointError::Kind::Cancelled:
      break;
  }
  return false;
}

Snapshot open_latest(record::FileSystem& file_system, const std::string& directory,
                     const OpenOptions& options, std::vector<SkippedCheckpoint>* skipped) {
  Opening opening(file_system, directory, options);
  std::vector<std::uint64_t> numbers = opening.list();
  for (int listing = 1;; ++listing) {
    std::vector<SkippedCheckpoint> passed;
    std::optional<Snapshot> snapshot = opening.try_all(numbers, passed);
    if (!opening.locked() && !passed.empty() && listing < kMaxListings) {
      // A save may have removed a file after it was listed; then there is a newer checkpoint.
      std::vector<std::uint64_t> now = opening.list();
      if (now != numbers) {
        numbers = std::move(now);
        continue;
      }
    }
    if (!snapshot && passed.empty()) {
      throw CheckpointError(CheckpointError::Kind::Missing, "there is no checkpoint in it",
                            opening.path());
    }
    if (!snapshot) {
      throw CheckpointError(passed.front().error);
    }
    if (skipped != nullptr) {
      *skipped = std::move(passed);
    }
    return std::move(*snapshot);
  }
}

}  // namespace reprise::checkpoint
