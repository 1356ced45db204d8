#include "checkpoint/snapshot.hpp"
#include "record/errors.hpp"

#include <cerrno>
#include <optional>
#include <utility>

namespace reprise::checkpoint {
namespace {

/// Listings that may be out of date before the last one is accepted.
constexpr int kMaxListings = 4;

/// Whether an older checkpoint may replace one that fails with this error.
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

}  // namespace

Snapshot open_latest(record::FileSystem& file_system, const std::string& directory,
                     const std::stop_token& stop, std::vector<SkippedCheckpoint>* skipped,
                     const std::function<void(const Snapshot&)>& use) {
  const auto folder =
      std::make_shared<record::Folder>(file_system, directory, record::IfAbsent::Fail);
  const std::shared_ptr<record::Lock> lock = folder->try_lock_shared(kReadersLock);
  std::vector<std::uint64_t> numbers = manifest_numbers(folder->list());
  for (int listing = 1;; ++listing) {
    std::vector<SkippedCheckpoint> passed;
    std::optional<Snapshot> snapshot;
    for (auto number = numbers.begin(); number != numbers.end() && !snapshot; ++number) {
      try {
        Snapshot opened(folder, lock, read_manifest(*folder, *number));
        opened.verify(stop);
        if (use) {
          use(opened);
        }
        snapshot = std::move(opened);
      } catch (const CheckpointError& error) {
        if (may_fall_back(error)) {
          passed.push_back({*number, error});
          continue;
        }
        const bool of_any = error.kind() == CheckpointError::Kind::Cancelled ||
                            error.kind() == CheckpointError::Kind::Io;
        throw CheckpointError(passed.empty() || of_any ? error : passed.front().error);
      }
    }
    if (lock == nullptr && !passed.empty() && listing < kMaxListings) {
      // A save may have removed a file after it was listed; then there is a newer checkpoint.
      std::vector<std::uint64_t> now = manifest_numbers(folder->list());
      if (now != numbers) {
        numbers = std::move(now);
        continue;
      }
    }
    if (!snapshot && passed.empty()) {
      throw CheckpointError(CheckpointError::Kind::Missing, "there is no checkpoint in it",
                            folder->path());
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
