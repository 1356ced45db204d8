#include "checkpoint/snapshot.hpp"

#include "base/parallel.hpp"
#include "record/errors.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace reprise::checkpoint {
namespace {

/// The most times that the directory is listed; the last listing is accepted even if it is old.
constexpr int kMaxListings = 4;

}  // namespace

const StateEntry& Snapshot::state(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      states(), name, {}, [](const StateEntry& state) -> std::string_view { return state.name; });
  if (found == states().end() || found->name != name) {
    throw CheckpointError(CheckpointError::Kind::Missing,
                          base::text("there is no state \"", name, "\""),
                          folder_->path_of(manifest_name(id().number)));
  }
  return *found;
}

void Snapshot::verify(const std::stop_token& stop) const {
  using Records = std::vector<RecordRef>;
  std::map<DataName, Records> by_name;
  for (const ChunkEntry& chunk : chunks()) {
    by_name[chunk.at.file].push_back(chunk.at);
  }
  for (const StateEntry& state : states()) {
    by_name[state.at.file].push_back(state.at);
  }
  std::vector<const Records*> by_file;
  std::uint64_t bytes = 0;
  for (const auto& [name, records] : by_name) {
    by_file.push_back(&records);
    bytes += files().at(name);
  }
  base::for_each_index(by_file.size(), bytes, [&](std::size_t i) {
    Reader reader(*this);
    for (const RecordRef& at : *by_file[i]) {
      reader.read(at, [&](record::Bytes) {
        if (stop.stop_requested()) {
          throw CheckpointError(CheckpointError::Kind::Cancelled, "the load was cancelled");
        }
      });
    }
  });
}

std::vector<std::byte> Reader::read_state(std::string_view name) {
  const StateEntry& state = snapshot_->state(name);
  std::vector<std::byte> bytes;
  // The memory grows with the verified bytes, not with the length that the file claims.
  read(state.at,
       [&](record::Bytes block) { bytes.insert(bytes.end(), block.begin(), block.end()); });
  return bytes;
}

void Reader::read_chunk(const ChunkEntry& chunk, std::span<const record::WritableBytes> rooms) {
  const record::RecordPlace& place = chunk.at.place;
  std::uint64_t room = 0;
  for (const record::WritableBytes& each : rooms) {
    room += each.size();
  }
  if (room != place.raw) {
    throw record::damaged(snapshot_->path_of(chunk.at), place.offset, "a record of ", place.raw,
                          " bytes; expected: ", room);
  }
  record::WritableBytes rest;  // The unfilled part of the room that is being filled.
  read(chunk.at, [&](record::Bytes block) {
    while (!block.empty()) {
      if (rest.empty()) {
        rest = rooms.front();
        rooms = rooms.subspan(1);
      }
      const std::size_t n = std::min(rest.size(), block.size());
      std::copy_n(block.begin(), n, rest.begin());
      rest = rest.subspan(n);
      block = block.subspan(n);
    }
  });
}

record::StoredFile& Reader::file(const DataName& name) {
  if (!file_ || open_file_ != name) {
    file_.reset();
    file_.emplace(open_data(*snapshot_->folder_, *snapshot_->files().find(name)));
    open_file_ = name;
  }
  return *file_;
}

bool is_fault_of_files(const CheckpointError& error) noexcept {
  // Other errors of the system, such as too many open files, are not the fault of the checkpoint.
  return error.kind() == CheckpointError::Kind::Damaged ||
         error.kind() == CheckpointError::Kind::Missing || error.error_number() == EIO;
}

namespace {

/// The newest checkpoint of a listing that can be used, and the newer ones that cannot.
struct Search {
  std::optional<Snapshot> found;
  std::vector<SkippedCheckpoint> passed;
};

Search search(const std::shared_ptr<record::Folder>& folder,
              const std::shared_ptr<record::Lock>& lock, std::span<const std::uint64_t> numbers,
              const std::stop_token& stop, const std::function<void(const Snapshot&)>& use) {
  Search result;
  for (const std::uint64_t number : numbers) {
    try {
      Snapshot opened(folder, lock, read_manifest(*folder, number));
      opened.verify(stop);
      if (use) {
        use(opened);
      }
      result.found = std::move(opened);
      break;
    } catch (const CheckpointError& error) {
      if (is_fault_of_files(error)) {
        result.passed.push_back({number, error});
        continue;
      }
      const bool of_call = error.kind() == CheckpointError::Kind::Cancelled ||
                           error.kind() == CheckpointError::Kind::Io;
      throw CheckpointError(result.passed.empty() || of_call ? error : result.passed.front().error);
    }
  }
  return result;
}

}  // namespace

Snapshot open_latest(record::FileSystem& file_system, const std::string& directory,
                     const std::stop_token& stop, std::vector<SkippedCheckpoint>* skipped,
                     const std::function<void(const Snapshot&)>& use) {
  const auto folder =
      std::make_shared<record::Folder>(file_system, directory, record::IfAbsent::Fail);
  const std::shared_ptr<record::Lock> lock = folder->lock(kReadersLock, record::LockMode::Shared);
  std::vector<std::uint64_t> numbers = manifest_numbers(folder->list());
  for (int listing = 1;; ++listing) {
    auto [snapshot, passed] = search(folder, lock, numbers, stop, use);
    if (lock == nullptr && !passed.empty() && listing < kMaxListings) {
      // A save may have removed a file after it was listed; then there is a newer checkpoint.
      std::vector<std::uint64_t> present = manifest_numbers(folder->list());
      if (present != numbers) {
        numbers = std::move(present);
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
