#include "crash_states.hpp"

#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr std::size_t kSectorBytes = 512;

/// Copies the bytes [from, to) of a write into a file. A gap behind the old end gets `filler`.
void write_part(std::vector<std::byte>& file, const Operation& write, std::size_t from,
                std::size_t to, std::byte filler) {
  if (from >= to) {
    return;
  }
  if (file.size() < write.offset + to) {
    file.resize(write.offset + to, filler);
  }
  std::copy(write.bytes.begin() + static_cast<std::ptrdiff_t>(from),
            write.bytes.begin() + static_cast<std::ptrdiff_t>(to),
            file.begin() + static_cast<std::ptrdiff_t>(write.offset + from));
}

/// The state of a disk while operations happen, which remembers what has not been synced.
class Disk {
 public:
  Disk(Unsynced unsynced, Rng& rng) : unsynced_(unsynced), rng_(rng) {}

  /// Syncs reach the disk at once. Writes, and changes of names, wait for their sync.
  void apply_operation(const Operation& operation) {
    switch (operation.kind) {
      case Operation::Kind::Write:
        unsynced_writes_[operation.file].push_back(&operation);
        break;
      case Operation::Kind::SyncFile:
        for (const Operation* const write : unsynced_writes_[operation.file]) {
          write_part(contents_[operation.file], *write, 0, write->bytes.size(), std::byte{0});
        }
        unsynced_writes_[operation.file].clear();
        break;
      case Operation::Kind::Create:
      case Operation::Kind::Rename:
      case Operation::Kind::Remove:
        unsynced_changes_.push_back(&operation);
        break;
      case Operation::Kind::SyncDirectory:
        for (const Operation* const change : unsynced_changes_) {
          apply_name_change(*change);
        }
        unsynced_changes_.clear();
        break;
      case Operation::Kind::Mark:
        break;
    }
  }

  /// The files after a power failure at this moment. May be called once.
  MemoryFiles crash() {
    for (const Operation* const change : unsynced_changes_) {
      if (reaches_disk()) {
        apply_name_change(*change);
      }
    }
    for (const auto& [file, writes] : unsynced_writes_) {
      for (const Operation* const write : writes) {
        apply_unsynced_write(contents_[file], *write);
      }
    }
    MemoryFiles files;
    for (const auto& [name, file] : names_) {
      files[name] = contents_[file];
    }
    return files;
  }

 private:
  /// Whether an operation that was not synced has reached the disk in full.
  bool reaches_disk() {
    return unsynced_ == Unsynced::All || (unsynced_ == Unsynced::AtRandom && rng_.chance(0.5));
  }

  void apply_name_change(const Operation& change) {
    if (change.kind == Operation::Kind::Remove) {
      // If an earlier rename or removal was lost, the name may be that of another file.
      const auto named = names_.find(change.name);
      if (named != names_.end() && named->second == change.file) {
        names_.erase(named);
      }
    } else if (change.kind == Operation::Kind::Create) {
      names_[change.name] = change.file;
    } else {
      names_.erase(change.name);
      names_[change.to] = change.file;
    }
  }

  /// Applies a write that was not synced: in full or not at all, or, if chance decides, up to some
  /// byte, or some of its sectors.
  void apply_unsynced_write(std::vector<std::byte>& file, const Operation& write) {
    const std::size_t size = write.bytes.size();
    const std::byte filler = rng_.chance(0.5) ? std::byte{0} : static_cast<std::byte>(rng_.next());
    if (unsynced_ != Unsynced::AtRandom || rng_.chance(0.5)) {
      if (reaches_disk()) {
        write_part(file, write, 0, size, filler);
      }
      return;
    }
    if (rng_.chance(0.5)) {
      const std::size_t cut = rng_.below(size + 1);
      write_part(file, write, 0, cut, filler);
      return;
    }
    // Sectors are aligned to the file's beginning, not to the write's.
    for (std::size_t from = 0; from < size;) {
      const std::size_t to =
          std::min(size, from + kSectorBytes - (write.offset + from) % kSectorBytes);
      if (rng_.chance(0.5)) {
        write_part(file, write, from, to, filler);
      }
      from = to;
    }
  }

  const Unsynced unsynced_;
  Rng& rng_;
  // Files are named by their number.
  std::map<std::uint64_t, std::vector<std::byte>> contents_;  ///< What is on the disk.
  std::map<std::uint64_t, std::vector<const Operation*>> unsynced_writes_;
  std::map<std::string, std::uint64_t> names_;      ///< The directory on the disk.
  std::vector<const Operation*> unsynced_changes_;  ///< Of names in the directory.
};

}  // namespace

MemoryFiles files_after_crash(std::span<const Operation> operations, Unsynced unsynced, Rng& rng) {
  Disk disk(unsynced, rng);
  for (const Operation& operation : operations) {
    disk.apply_operation(operation);
  }
  return disk.crash();
}

}  // namespace reprise::test
