#include "crash_states.hpp"

#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr std::size_t kSectorBytes = 512;

/// Copies bytes `from` to `to` of a write into a file. If the file grows, `filler` fills the gap.
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

class Disk {
 public:
  Disk(Unsynced unsynced, Rng& rng) : unsynced_(unsynced), rng_(rng) {}

  void apply_operation(const Operation& operation) {
    switch (operation.kind) {
      case Operation::Kind::Write:
        writes_[operation.file].push_back(&operation);
        break;
      case Operation::Kind::SyncFile:
        for (const Operation* const write : writes_[operation.file]) {
          write_part(contents_[operation.file], *write, 0, write->bytes.size(), std::byte{0});
        }
        writes_[operation.file].clear();
        break;
      case Operation::Kind::Create:
      case Operation::Kind::Rename:
      case Operation::Kind::Remove:
        changes_.push_back(&operation);
        break;
      case Operation::Kind::SyncDirectory:
        for (const Operation* const change : changes_) {
          apply(*change);
        }
        changes_.clear();
        break;
      case Operation::Kind::Mark:
        break;
    }
  }

  MemoryFiles crash() {
    for (const Operation* const change : changes_) {
      if (reaches_disk()) {
        apply(*change);
      }
    }
    for (const auto& [file, writes] : writes_) {
      for (const Operation* const write : writes) {
        apply_partly(contents_[file], *write);
      }
    }
    MemoryFiles files;
    for (const auto& [name, file] : names_) {
      files[name] = contents_[file];
    }
    return files;
  }

 private:
  bool reaches_disk() {
    return unsynced_ == Unsynced::All || (unsynced_ == Unsynced::AtRandom && rng_.chance(0.5));
  }

  void apply(const Operation& change) {
    if (change.kind == Operation::Kind::Remove) {
      const auto found = names_.find(change.name);
      if (found != names_.end() && found->second == change.file) {
        names_.erase(found);
      }
    } else if (change.kind == Operation::Kind::Create) {
      names_[change.name] = change.file;
    } else {
      names_.erase(change.name);
      names_[change.to] = change.file;
    }
  }

  void apply_partly(std::vector<std::byte>& file, const Operation& write) {
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
  std::map<std::uint64_t, std::vector<std::byte>>
      contents_;  ///< Contents that are on the disk, by the number of the file.
  std::map<std::uint64_t, std::vector<const Operation*>> writes_;
  std::map<std::string, std::uint64_t> names_;
  std::vector<const Operation*> changes_;
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
