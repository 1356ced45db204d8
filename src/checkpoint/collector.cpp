#include "checkpoint/manifest.hpp"
#include "record/errors.hpp"

#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace reprise::checkpoint {
namespace {

/// Returns a manifest that can be read and whose files exist. Their contents are not verified,
/// because that would take reading all of them.
std::optional<Manifest> read_whole(record::Folder& folder, std::uint64_t number) {
  try {
    Manifest manifest = read_manifest(folder, number);
    for (const DataFile& file : manifest.files) {
      static_cast<void>(open_data(folder, file));
    }
    return manifest;
  } catch (const CheckpointError& error) {
    if (error.kind() == CheckpointError::Kind::Damaged ||
        error.kind() == CheckpointError::Kind::Missing) {
      return std::nullopt;
    }
    // The manifest may be readable later.
    throw;
  }
}

/// Whether all of the files are gone.
bool remove_all(record::Folder& folder, const std::vector<std::string>& names) {
  bool gone = true;
  for (const std::string& name : names) {
    gone = folder.try_remove(name) && gone;
  }
  return gone;
}

void remove_unneeded(record::Folder& folder, std::size_t keep) {
  const std::vector<std::string> names = folder.list();
  std::set<DataName> needed;
  std::vector<std::string> old;
  std::size_t kept = 0;
  for (const std::uint64_t number : manifest_numbers(names)) {
    if (kept == keep) {
      old.push_back(manifest_name(number));
    } else if (const std::optional<Manifest> manifest = read_whole(folder, number)) {
      ++kept;
      for (const DataFile& file : manifest->files) {
        needed.insert(file.first);
      }
    }
  }
  if (kept == 0) {
    return;
  }
  // A manifest goes before its data, so that after a crash no manifest lacks its data.
  if (!remove_all(folder, old)) {
    return;
  }
  folder.sync();
  std::vector<std::string> unneeded;
  for (const std::string& name : names) {
    const std::optional<DataName> data = parse_data_name(name);
    if ((data && !needed.contains(*data)) || parse_unfinished_name(name)) {
      unneeded.push_back(name);
    }
  }
  remove_all(folder, unneeded);
}

}  // namespace

void collect(record::Folder& folder, std::size_t keep) noexcept {
  try {
    const std::unique_ptr<record::Lock> lock = folder.lock_exclusive(kReadersLock);
    if (lock != nullptr) {
      remove_unneeded(folder, keep);
    }
  } catch (const std::exception&) {
    // Nothing is lost: the save has succeeded, and the next one collects again.
    return;
  }
}

}  // namespace reprise::checkpoint
