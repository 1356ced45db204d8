// A libFuzzer target that loads the input as a checkpoint directory. The library is built with
// FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION, which accepts every checksum and makes blocks small.
#include "checkpoint/snapshot.hpp"
#include "packed_file_system.hpp"
#include "testing/library.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using reprise::checkpoint::Reader;
using reprise::record::WritableBytes;

/// Reads everything that a snapshot names, each chunk in three parts.
void read_all(const reprise::checkpoint::Snapshot& snapshot) {
  Reader reader(snapshot);
  std::vector<std::byte> bytes;
  for (const auto& chunk : snapshot.chunks()) {
    // The snapshot has checked this size against the size of the chunk's file.
    bytes.resize(chunk.at.place.raw);
    const WritableBytes room(bytes);
    const std::size_t third = room.size() / 3;
    reader.read_chunk(chunk, std::array{room.first(third), WritableBytes(), room.subspan(third)});
  }
  for (const auto& state : snapshot.states()) {
    static_cast<void>(reader.read_state(state.name));
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reprise::test::PackedFileSystem files(std::as_bytes(std::span(data, size)));
  try {
    std::vector<reprise::SkippedCheckpoint> skipped;
    read_all(reprise::checkpoint::open_latest(files, "input", {}, &skipped));
  } catch (const reprise::CheckpointError&) {
    // The library may refuse an input only by this exception.
    return 0;
  }
  return 0;
}
