#include "checkpoint/snapshot.hpp"

#include "base/parallel.hpp"
#include "record/errors.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace reprise::checkpoint {

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
  using Records = std::vector<std::pair<RecordRef, record::RecordId>>;
  std::map<DataName, Records> by_name;
  for (const ChunkEntry& chunk : chunks()) {
    by_name[chunk.at.file].emplace_back(chunk.at, chunk.record_id());
  }
  for (const StateEntry& state : states()) {
    by_name[state.at.file].emplace_back(state.at, state.record_id());
  }
  std::vector<const Records*> by_file;
  std::uint64_t bytes = 0;
  for (const auto& [name, records] : by_name) {
    by_file.push_back(&records);
    bytes += files().at(name);
  }
  base::for_each_index(by_file.size(), bytes, [&](std::size_t i) {
    Reader reader(*this);
    for (const auto& [at, id] : *by_file[i]) {
      reader.read(at, id, [&](record::Bytes) {
        if (stop.stop_requested()) {
          throw CheckpointError(CheckpointError::Kind::Cancelled, "the load was cancelled");
        }
      });
    }
  });
}

std::vector<std::byte> Reader::state(std::string_view name) {
  const StateEntry& state = snapshot_->state(name);
  std::vector<std::byte> bytes;
  // The memory grows with the verified bytes, not with the length that the file claims.
  read(state.at, state.record_id(),
       [&](record::Bytes block) { bytes.insert(bytes.end(), block.begin(), block.end()); });
  return bytes;
}

void Reader::chunk(const ChunkEntry& chunk, std::span<const record::Room> rooms) {
  const record::RecordPlace& place = chunk.at.place;
  std::uint64_t room = 0;
  for (const record::Room& each : rooms) {
    room += each.size();
  }
  if (room != place.raw) {
    throw record::damaged(snapshot_->path_of(chunk.at), place.offset, "a record of ", place.raw,
                          " bytes; expected: ", room);
  }
  record::Pieces<record::Room> pieces(rooms);
  read(chunk.at, chunk.record_id(), [&](record::Bytes block) {
    while (!block.empty()) {
      const record::Room piece = pieces.next(block.size());
      std::memcpy(piece.data(), block.data(), piece.size());
      block = block.subspan(piece.size());
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

}  // namespace reprise::checkpoint
