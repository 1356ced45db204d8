#include "checkpoint/saver.hpp"

#include "base/text.hpp"
#include "record/errors.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

namespace reprise::checkpoint {
namespace {

constexpr std::size_t kMaxKeep = 1000;
constexpr int kMaxLevel = 19;

/// The checkpoint number in the name of a data file or manifest, finished or not; 0 for other
/// names.
std::uint64_t number_in(const std::string& name) {
  if (const auto data = parse_data_name(name)) {
    return data->number;
  }
  if (const auto number = parse_manifest_name(name)) {
    return *number;
  }
  return parse_unfinished_name(name).value_or(0);
}

}  // namespace

SaveOptions checked(SaveOptions options) {
  if (options.keep < 1 || options.keep > kMaxKeep) {
    base::refuse(base::OptionsOf{"SaveOptions"}, "keep is ", options.keep, "; allowed: 1 to ",
                 kMaxKeep);
  }
  if (options.compression.level < 0 || options.compression.level > kMaxLevel) {
    base::refuse(base::OptionsOf{"SaveOptions"}, "compression is of level ",
                 options.compression.level, "; allowed: 0 to ", kMaxLevel);
  }
  return options;
}

Saver::Saver(record::FileSystem& file_system, const std::string& directory, SaveOptions options,
             std::optional<ManifestId> base, std::uint64_t full_bytes)
    : options_(checked(std::move(options))),
      folder_(file_system, directory, record::IfAbsent::Create),
      lock_(folder_.lock(kSaverLock, record::LockMode::Exclusive)) {
  if (lock_ == nullptr) {
    throw CheckpointError(CheckpointError::Kind::Locked,
                          "another save is at work in this directory", directory);
  }
  choose_number(folder_.list());
  if (options_.incremental) {
    read_base(base);
  }
  segments_ =
      std::make_unique<Segments>(folder_, number_, options_.compression, options_.stop, full_bytes);
}

void Saver::choose_number(const std::vector<std::string>& names) {
  // The number is above every number in use, also those of files that a crashed save left, so that
  // no name is used twice.
  std::uint64_t highest = 0;
  for (const std::string& name : names) {
    highest = std::max(highest, number_in(name));
  }
  if (highest == std::numeric_limits<std::uint64_t>::max()) {
    throw record::damaged(folder_.path(), 0, "a file has the number ", highest,
                          ", the last there is");
  }
  number_ = highest + 1;
  for (const std::uint64_t number : manifest_numbers(names)) {
    refuse_newer_version(folder_, number);
  }
}

void Saver::read_base(const std::optional<ManifestId>& base) {
  if (!base) {
    return;
  }
  try {
    const std::optional<Manifest> read = read_whole(folder_, base->number);
    if (!read || read->id != *base) {
      return;
    }
    base_files_ = read->files;
    for (const ChunkEntry& chunk : read->chunks) {
      if (chunk.id.closed != 0) {
        closed_in_base_.emplace(chunk.id.index, chunk);
      }
    }
  } catch (const CheckpointError&) {
    // Without a base everything is written. If the directory itself is at fault, writing reports
    // the fault.
    return;
  }
}

void Saver::announce(std::uint64_t chunks) {
  const base::MutexLock lock(mutex_);
  progress_.chunks_total = chunks;
}

bool Saver::reuse_chunk(const ChunkId& id) {
  const auto found = closed_in_base_.find(id.index);
  if (found == closed_in_base_.end() || found->second.id != id) {
    return false;
  }
  const base::MutexLock lock(mutex_);
  manifest_.chunks.push_back(found->second);
  ++progress_.chunks_reused;
  return true;
}

void Saver::write_chunk(const ChunkId& id, std::span<const record::Bytes> parts) {
  const ChunkEntry chunk{id,
                         segments_->write(parts, record::Form::Compressed,
                                          id.closed != 0 ? Lifetime::Lasting : Lifetime::Passing)};
  const base::MutexLock lock(mutex_);
  manifest_.chunks.push_back(chunk);
  ++progress_.chunks_written;
  progress_.bytes_written += chunk.at.place.stored;
  if (options_.progress) {
    options_.progress(progress_);
  }
}

void Saver::write_state(const std::string& name, std::span<const record::Bytes> parts) {
  StateEntry state{name, segments_->write(parts, record::Form::Plain, Lifetime::Passing)};
  const base::MutexLock lock(mutex_);
  progress_.bytes_written += state.at.place.stored;
  manifest_.states.push_back(std::move(state));
}

SaveResult Saver::commit() {
  const base::MutexLock lock(mutex_);
  SaveResult result{.manifest = number_,
                    .chunks_written = progress_.chunks_written,
                    .chunks_reused = progress_.chunks_reused,
                    .chunks_moved = move_out_of_sparse_files()};
  const DataFiles written = segments_->finish();
  // The names of the data are synced before the manifest that needs them.
  folder_.sync();
  complete_manifest(written);
  result.bytes_written = publish();
  for (const auto& [name, size] : written) {
    result.bytes_written += size;
  }
  collect(folder_, options_.keep);
  return result;
}

std::uint64_t Saver::move_out_of_sparse_files() {
  std::uint64_t moved = 0;
  std::map<DataName, std::vector<ChunkEntry*>> in_use;
  for (ChunkEntry& chunk : manifest_.chunks) {
    if (chunk.at.file.number != number_) {
      in_use[chunk.at.file].push_back(&chunk);
    }
  }
  for (const auto& [name, chunks] : in_use) {
    const DataFile& file = *base_files_.find(name);
    std::uint64_t used = 0;
    for (const ChunkEntry* const chunk : chunks) {
      used += chunk->at.place.stored;
    }
    if (used >= (file.second - record::FileHeader::kBytes + 1) / 2) {
      continue;  // At least half of the file is in use.
    }
    record::StoredFile from = open_data(folder_, file);
    for (ChunkEntry* const chunk : chunks) {
      chunk->at = segments_->copy(from, chunk->at.place);
      ++moved;
    }
  }
  return moved;
}

void Saver::complete_manifest(const DataFiles& written) {
  manifest_.id.number = number_;
  DataFiles all = base_files_;
  all.insert(written.begin(), written.end());
  const auto name_file = [&all](DataFiles& files, const RecordRef& at) {
    files.emplace(at.file, all.at(at.file));
  };
  for (const ChunkEntry& chunk : manifest_.chunks) {
    name_file(manifest_.files, chunk.at);
  }
  for (const StateEntry& state : manifest_.states) {
    name_file(manifest_.files, state.at);
  }
  std::ranges::sort(manifest_.chunks, {},
                    [](const ChunkEntry& chunk) { return chunk.at.position(); });
  std::ranges::sort(manifest_.states, {}, &StateEntry::name);
}

std::uint64_t Saver::publish() {
  std::uint64_t bytes = 0;
  const std::string unfinished = unfinished_name(number_);
  const std::string finished = manifest_name(number_);
  try {
    bytes = write_manifest(folder_, manifest_);
    // The manifest may exist from here on, because a rename may report an error and still have
    // happened. Then it is a valid manifest, and its data stay.
    segments_->keep();
    folder_.rename(unfinished, finished);
  } catch (...) {
    if (!folder_.exists(finished)) {
      segments_->discard();
      folder_.try_remove(unfinished);
    }
    throw;
  }
  folder_.sync();
  return bytes;
}

}  // namespace reprise::checkpoint
