#include "contents.hpp"
#include "packed_files.hpp"
#include "testing/test.hpp"

#include <filesystem>
#include <fstream>

namespace reprise::checkpoint {
namespace {

/// These inputs were written in version 1 of the format. Every later version must be able to read
/// them.
TEST(FuzzCorpus, HasCheckpointsOfVersionOneThatCanBeLoaded) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(REPRISE_FUZZ_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    test::MemoryFileSystem system(test::unpack(std::as_bytes(std::span(bytes))));
    const test::Loaded loaded = test::load(system, "corpus");
    EXPECT_TRUE(loaded.skipped.empty()) << entry.path();
    // Inputs with two chunks or more are saves of a `ContentsGenerator`, which has states.
    EXPECT_EQ(loaded.contents.states.empty(), loaded.contents.chunks.size() < 2) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 7U);
}

}  // namespace
}  // namespace reprise::checkpoint
