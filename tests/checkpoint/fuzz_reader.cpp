// A libFuzzer target: loads whatever the input says is in a checkpoint directory. Built with
// FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION, which lets every checksum agree.
#include "checkpoint/snapshot.hpp"
#include "contents.hpp"
#include "packed_files.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace test = reprise::test;
  test::MemoryFileSystem system(test::unpack(std::as_bytes(std::span(data, size))));
  reprise::checkpoint::OpenOptions options;
  options.limits = {.max_chunks = 1000,
                    .max_chunk_bytes = 1U << 20U,
                    .max_state_bytes = 1U << 20U,
                    .max_manifest_bytes = 1U << 20U};
  try {
    test::load(system, "input", options);
  } catch (const reprise::CheckpointError&) {
    // The only way to refuse an input.
    return 0;
  }
  return 0;
}
