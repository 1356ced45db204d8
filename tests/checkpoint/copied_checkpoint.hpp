#pragma once

#include "checkpoint/saver.hpp"
#include "checkpoint/snapshot.hpp"
#include "testing/test.hpp"

namespace reprise::test {

/// The contents of a checkpoint, which a test changes and writes again, with correct checksums.
struct CopiedCheckpoint {
  using Contents = std::vector<std::byte>;

  CopiedCheckpoint(record::FileSystem& files, const std::string& directory) {
    const checkpoint::Snapshot snapshot = checkpoint::open_latest(files, directory);
    checkpoint::Reader reader(snapshot);
    for (const checkpoint::StateEntry& state : snapshot.states()) {
      states[state.name] = reader.read_state(state.name);
    }
    for (const checkpoint::ChunkEntry& chunk : snapshot.chunks()) {
      chunks.emplace_back(chunk.id, Contents(chunk.at.place.raw));
      reader.read_chunk(chunk, std::array{record::WritableBytes(chunks.back().second)});
    }
  }

  /// Writes the contents as the newest checkpoint of the directory.
  void write(record::FileSystem& files, const std::string& directory) const {
    checkpoint::Saver saver(files, directory, {});
    for (const auto& [name, contents] : states) {
      saver.write_state(name, std::array{record::Bytes(contents)});
    }
    for (const auto& [id, contents] : chunks) {
      saver.write_chunk(id, std::array{record::Bytes(contents)});
    }
    saver.commit();
  }

  std::map<std::string, Contents> states;
  std::vector<std::pair<checkpoint::ChunkId, Contents>> chunks;
};

}  // namespace reprise::test
