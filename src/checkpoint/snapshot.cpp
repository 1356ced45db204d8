#include "checkpoint/snapshot.hpp"

#include "base/parallel.hpp"
#include "record/errors.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace reprise::checkpoint {
namespace {

/// Bytes from which reading files in parallel is faster.
constexpr std::uint64_t kParallelBytes = std::uint64_t{4} << 20U;

record::RecordId id_of(const ChunkEntry& chunk) {
  return record::RecordId::of_chunk(chunk.id.index, chunk.id.generation);
}

}  // namespace

const StateEntry* Snapshot::find_state(std::string_view name) const noexcept {
  const auto& states = read_.manifest.states;
  const auto found = std::ranges::lower_bound(
      states, name, {}, [](const StateEntry& state) { return std::string_view(state.name); });
  return found != states.end() && found->name == name ? &*found : nullptr;
}

const StateEntry& Snapshot::state(std::string_view name) const {
  const StateEntry* const entry = find_state(name);
  if (entry == nullptr) {
    throw CheckpointError(CheckpointError::Kind::Missing,
                          base::text("there is no state \"", name, "\""),
                          folder_->path_of(manifest_name(id().number)));
  }
  return *entry;
}

void Snapshot::verify(const std::stop_token& stop) const {
  const std::size_t n = files().size();
  std::vector<std::vector<RecordRef>> records(n);
  std::vector<std::vector<record::RecordId>> ids(n);
  for (const ChunkEntry& chunk : chunks()) {
    records[chunk.at.file].push_back(chunk.at);
    ids[chunk.at.file].push_back(id_of(chunk));
  }
  for (const StateEntry& state : states()) {
    records[state.at.file].push_back(state.at);
    ids[state.at.file].push_back(record::RecordId::of_state(state.name));
  }
  const auto verify_some = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      verify_file(static_cast<std::uint32_t>(i), records[i], ids[i], stop);
    }
  };
  std::uint64_t bytes = 0;
  for (const DataFile& file : files()) {
    bytes += std::min(file.size, kParallelBytes);
  }
  if (n > 1 && bytes >= kParallelBytes) {
    base::parallel_blocks(n, 1, verify_some);
  } else {
    verify_some(0, n);
  }
}

void Snapshot::verify_file(std::uint32_t file, std::span<const RecordRef> records,
                           std::span<const record::RecordId> ids,
                           const std::stop_token& stop) const {
  record::RecordReader reader;
  record::StoredFile stored = open_data(*folder_, files()[file]);
  for (std::size_t i = 0; i < records.size(); ++i) {
    reader.read(stored, records[i].place, ids[i], [&](record::Bytes) {
      if (stop.stop_requested()) {
        throw CheckpointError(CheckpointError::Kind::Cancelled, "the load was cancelled");
      }
    });
  }
}

void Reader::chunk(const ChunkEntry& chunk, const record::RecordReader::Sink& sink) {
  read(chunk.at, id_of(chunk), sink);
}

void Reader::state(const StateEntry& state, const record::RecordReader::Sink& sink) {
  read(state.at, record::RecordId::of_state(state.name), sink);
}

void Reader::chunk(const ChunkEntry& chunk, std::span<const record::Room> rooms) {
  read(chunk.at, id_of(chunk), rooms);
}

void Reader::state(const StateEntry& state, std::span<const record::Room> rooms) {
  read(state.at, record::RecordId::of_state(state.name), rooms);
}

std::vector<std::byte> Reader::state(std::string_view name) {
  std::vector<std::byte> bytes;
  // The memory grows with the verified bytes, not with the length that the file claims.
  state(snapshot_->state(name),
        [&](record::Bytes block) { bytes.insert(bytes.end(), block.begin(), block.end()); });
  return bytes;
}

void Reader::read(const RecordRef& at, const record::RecordId& id,
                  const record::RecordReader::Sink& sink) {
  records_.read(file(at.file), at.place, id, sink);
}

void Reader::read(const RecordRef& at, const record::RecordId& id,
                  std::span<const record::Room> rooms) {
  std::uint64_t room = 0;
  for (const record::Room& each : rooms) {
    room += each.size();
  }
  record::StoredFile& from = file(at.file);
  if (room != at.place.raw) {
    throw record::damaged(from.path(), at.place.offset, "a record of ", at.place.raw,
                          " bytes; expected: ", room);
  }
  record::Pieces<record::Room> pieces(rooms);
  records_.read(from, at.place, id, [&](record::Bytes block) {
    while (!block.empty()) {
      const record::Room piece = pieces.next(block.size());
      std::memcpy(piece.data(), block.data(), piece.size());
      block = block.subspan(piece.size());
    }
  });
}

record::StoredFile& Reader::file(std::uint32_t number) {
  if (!file_ || open_file_ != number) {
    file_.reset();
    file_.emplace(open_data(*snapshot_->folder_, snapshot_->files()[number]));
    open_file_ = number;
  }
  return *file_;
}

}  // namespace reprise::checkpoint
