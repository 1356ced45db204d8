// A libFuzzer target: loads whatever the input says is in a checkpoint directory. Built with
// FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION, which lets every checksum agree and makes blocks small.
#include "checkpoint/snapshot.hpp"
#include "packed_file_system.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using reprise::checkpoint::Reader;
using reprise::record::Room;

/// Everything that a snapshot names, chunks into three rooms each.
void read_all(const reprise::checkpoint::Snapshot& snapshot) {
  Reader reader(snapshot);
  std::vector<std::byte> bytes;
  for (const auto& chunk : snapshot.chunks()) {
    // Verified, so there is as much of it.
    bytes.resize(chunk.at.place.raw);
    const Room room(bytes);
    const std::size_t third = room.size() / 3;
    reader.chunk(chunk, std::array{room.first(third), Room(), room.subspan(third)});
  }
  for (const auto& state : snapshot.states()) {
    static_cast<void>(reader.state(state.name));
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reprise::test::PackedFileSystem files(std::as_bytes(std::span(data, size)));
  try {
    std::vector<reprise::SkippedCheckpoint> skipped;
    read_all(reprise::checkpoint::open_latest(files, "input", {}, &skipped));
  } catch (const reprise::CheckpointError&) {
    // The only way to refuse an input.
    return 0;
  }
  return 0;
}
