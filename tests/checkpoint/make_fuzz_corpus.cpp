// make_fuzz_corpus DIRECTORY writes initial inputs for the fuzzer of the checkpoint reader.
#include "contents.hpp"
#include "packed_files.hpp"
#include "testing/library.hpp"

#include <cstdio>
#include <fstream>

namespace {

using reprise::test::ContentsGenerator;
using reprise::test::MemoryFileSystem;

void write(const std::string& path, const MemoryFileSystem& system) {
  const auto bytes = reprise::test::pack(system.files());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_fuzz_corpus DIRECTORY\n");
    return 2;
  }
  const std::string directory = argv[1];
  for (const int level : {0, 1}) {
    const std::string ending = level == 0 ? "_plain" : "_zstd";
    MemoryFileSystem one;
    ContentsGenerator maker(17, 4, 40);
    std::optional<reprise::checkpoint::ManifestId> base;
    base = reprise::test::save(one, "corpus", maker.next(), {.compression = {.level = level}}).id;
    write(directory + "/one" + ending, one);
    reprise::test::save(one, "corpus", maker.next(), {.compression = {.level = level}}, base);
    write(directory + "/two" + ending, one);
    MemoryFileSystem none;
    reprise::test::save(none, "corpus", {}, {.compression = {.level = level}});
    write(directory + "/none" + ending, none);
    MemoryFileSystem blocks;
    reprise::test::Contents contents;
    const std::size_t size = 2 * reprise::record::kBlockBytes + 5;
    contents.chunks[0] = {{0, 0, 1, true}, reprise::test::ByteVector(size)};
    // Compression keeps the files at some kilobytes.
    reprise::test::save(blocks, "corpus", contents, {.compression = {.level = 1}});
    write(directory + "/blocks_zstd", blocks);
  }
  return 0;
}
