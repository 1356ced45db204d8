#include "checkpoint/saver.hpp"

#include "base/text.hpp"
#include "checkpoint/collector.hpp"
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

SaveOptions checked(SaveOptions options) {
  if (options.keep < 1 || options.keep > kMaxKeep) {
    throw std::invalid_argument(
        base::text("SaveOptions: keep is ", options.keep, "; allowed: 1 to ", kMaxKeep));
  }
  if (options.compression.level < 0 || options.compression.level > kMaxLevel) {
    throw std::invalid_argument(base::text("SaveOptions: compression.level is ",
                                           options.compression.level, "; allowed: 0 to ",
                                           kMaxLevel));
  }
  return options;
}

/// The checkpoint number in a name of either kind; 0 for other names.
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

Saver::Saver(record::FileSystem& file_system, const std::string& directory, SaveOptions options,
             std::optional<ManifestId> base, std::uint64_t full_bytes)
    : options_(checked(std::move(options))),
      folder_(file_system, directory, record::IfAbsent::Create),
      lock_(folder_.lock_exclusive(kSaverLock)) {
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

Saver::~Saver() = default;

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
    const ReadManifest read = read_manifest(folder_, base->number, {});
    if (read.id != *base) {
      return;
    }
    for (const DataFile& file : read.manifest.files) {
      static_cast<void>(open_data(folder_, file));
    }
    base_files_ = read.manifest.files;
    for (const ChunkEntry& chunk : read.manifest.chunks) {
      if (chunk.id.closed) {
        closed_in_base_.emplace(chunk.id.index, chunk);
      }
    }
  } catch (const CheckpointError&) {
    // Without a base everything is written. If the directory itself is at fault, writing will
    // report it.
    base_files_.clear();
    closed_in_base_.clear();
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
  const RecordRef& at = found->second.at;
  const base::MutexLock lock(mutex_);
  chunks_.push_back({id, {base_files_[at.file].name, at.place}, true});
  ++progress_.chunks_reused;
  return true;
}

void Saver::begin_write() {
  const base::MutexLock lock(mutex_);
  ++unfinished_writes_;
}

void Saver::write_chunk(const ChunkId& id, std::span<const record::Bytes> parts) {
  begin_write();
  const WrittenRecord written =
      segments_->write(record::RecordId::of_chunk(id.index, id.generation), parts,
                       id.closed ? Lifetime::Lasting : Lifetime::Passing);
  const base::MutexLock lock(mutex_);
  chunks_.push_back({id, {written.file, written.place}, false});
  ++progress_.chunks_written;
  progress_.bytes_written += written.place.stored;
  if (options_.progress) {
    options_.progress(progress_);
  }
  --unfinished_writes_;
}

void Saver::write_state(const std::string& name, std::span<const record::Bytes> parts) {
  if (name.empty() || name.size() > kMaxStateName) {
    throw std::invalid_argument(base::text("checkpoint: the name of a state has ", name.size(),
                                           " bytes; allowed: 1 to ", kMaxStateName));
  }
  begin_write();
  const WrittenRecord written =
      segments_->write(record::RecordId::of_state(name), parts, Lifetime::Passing);
  const base::MutexLock lock(mutex_);
  states_.push_back({name, {written.file, written.place}});
  progress_.bytes_written += written.place.stored;
  --unfinished_writes_;
}

SaveResult Saver::commit() {
  const base::MutexLock lock(mutex_);
  if (unfinished_writes_ > 0) {
    throw std::logic_error("checkpoint: commit after a call that threw, or beside one at work");
  }
  move_out_of_sparse_files();
  const std::vector<DataFile> written = segments_->finish();
  // The names of the data are synced before the manifest that needs them.
  folder_.sync();
  publish(make_manifest(written));
  result_.manifest = number_;
  result_.chunks_written = progress_.chunks_written;
  result_.chunks_reused = progress_.chunks_reused;
  for (const DataFile& file : written) {
    result_.bytes_written += file.size;
  }
  collect(folder_, options_.keep);
  return result_;
}

void Saver::move_out_of_sparse_files() {
  std::map<DataName, std::vector<PlacedChunk*>> in_use;
  for (PlacedChunk& chunk : chunks_) {
    if (chunk.reused) {
      in_use[chunk.at.file].push_back(&chunk);
    }
  }
  for (const DataFile& file : base_files_) {
    const auto found = in_use.find(file.name);
    if (found == in_use.end()) {
      continue;
    }
    std::uint64_t used = 0;
    for (const PlacedChunk* const chunk : found->second) {
      used += chunk->at.place.stored;
    }
    if (used >= (file.size - record::FileHeader::kBytes + 1) / 2) {
      continue;
    }
    record::StoredFile from = open_data(folder_, file);
    for (PlacedChunk* const chunk : found->second) {
      const WrittenRecord moved = segments_->copy(
          from, chunk->at.place, record::RecordId::of_chunk(chunk->id.index, chunk->id.generation));
      chunk->at = {moved.file, moved.place};
      ++result_.chunks_moved;
    }
  }
}

Manifest Saver::make_manifest(const std::vector<DataFile>& written) {
  std::map<DataName, std::uint64_t> sizes;
  for (const DataFile& file : base_files_) {
    sizes.emplace(file.name, file.size);
  }
  for (const DataFile& file : written) {
    sizes.emplace(file.name, file.size);
  }
  std::map<DataName, std::uint32_t> places;
  for (const PlacedChunk& chunk : chunks_) {
    places.emplace(chunk.at.file, 0);
  }
  for (const PlacedState& state : states_) {
    places.emplace(state.at.file, 0);
  }
  Manifest manifest;
  manifest.number = number_;
  for (auto& [name, place] : places) {
    place = static_cast<std::uint32_t>(manifest.files.size());
    manifest.files.push_back({name, sizes.at(name)});
  }
  manifest.chunks.reserve(chunks_.size());
  for (const PlacedChunk& chunk : chunks_) {
    manifest.chunks.push_back({chunk.id, {places.at(chunk.at.file), chunk.at.place}});
  }
  for (const PlacedState& state : states_) {
    manifest.states.push_back({state.name, {places.at(state.at.file), state.at.place}});
  }
  std::ranges::sort(manifest.chunks, [](const ChunkEntry& a, const ChunkEntry& b) {
    return std::pair(a.at.file, a.at.place.offset) < std::pair(b.at.file, b.at.place.offset);
  });
  std::ranges::sort(manifest.states, {}, &StateEntry::name);
  return manifest;
}

void Saver::publish(const Manifest& manifest) {
  const std::string unfinished = unfinished_name(number_);
  const std::string finished = manifest_name(number_);
  try {
    id_ = write_manifest(folder_, manifest, result_.bytes_written);
    // The manifest may exist from here on, because a rename may report an error and still have
    // happened. Then it is a valid manifest, and its data stay.
    segments_->keep(true);
    folder_.rename(unfinished, finished);
  } catch (...) {
    if (!folder_.exists(finished)) {
      segments_->keep(false);
      folder_.try_remove(unfinished);
    }
    throw;
  }
  folder_.sync();
}

}  // namespace reprise::checkpoint
