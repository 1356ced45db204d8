#include "../record/memory_file_system.hpp"
#include "checkpoint/names.hpp"
#include "checkpoint/saver.hpp"
#include "checkpoint/snapshot.hpp"
#include "contents.hpp"
#include "listing.hpp"
#include "testing/program/sanitizer.hpp"
#include "testing/test.hpp"

namespace reprise::checkpoint {
namespace {

using test::ByteVector;
using test::Contents;
using test::ContentsGenerator;
using test::kDirectory;
using test::list;
using test::Listing;
using test::load;
using test::MemoryFileSystem;
using test::save;

TEST(Names, AreParsedBackAndNothingElseIsParsed) {
  constexpr std::uint64_t kMaxNumber = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(manifest_name(7), "manifest-00000000000000000007");
  EXPECT_EQ(parse_manifest_name(manifest_name(kMaxNumber)), kMaxNumber);
  EXPECT_EQ(parse_unfinished_name(unfinished_name(3)), 3U);
  EXPECT_EQ(parse_data_name(data_name({kMaxNumber, kMaxNumber - 1})),
            (DataName{kMaxNumber, kMaxNumber - 1}));
  for (const char* const name :
       {"manifest-7", "manifest-99999999999999999999", "manifest-0000000000000000000x",
        "manifest-000000000000000000071", "manifest-00000000000000000007.tmp", "",
        "manifest--0000000000000000007", "data-00000000000000000001-0000000000"}) {
    EXPECT_FALSE(parse_manifest_name(name)) << name;
  }
  EXPECT_FALSE(parse_data_name("data-00000000000000000001-9999999999"));
  EXPECT_FALSE(parse_data_name("data-00000000000000000001-99999999999999999999"));
  EXPECT_FALSE(parse_unfinished_name(manifest_name(1)));
}

TEST(Store, LoadsWhatWasSaved) {
  for (const int level : {0, 1}) {
    for (const std::uint32_t chunks : {0U, 1U, 20U}) {
      MemoryFileSystem system;
      ContentsGenerator maker(chunks + 1, chunks, 50, 100);
      const test::Saved saved =
          save(system, kDirectory, maker.next(), {.compression = {.level = level}});
      EXPECT_EQ(saved.result.manifest, 1U);
      EXPECT_EQ(saved.result.chunks_written, chunks);
      std::uint64_t bytes = 0;
      for (const auto& [name, contents] : system.files()) {
        bytes += contents.size();
      }
      EXPECT_EQ(saved.result.bytes_written, bytes);
      const test::Loaded loaded = load(system, kDirectory);
      EXPECT_EQ(loaded.id, saved.id);
      EXPECT_TRUE(loaded.contents == maker.now());
      EXPECT_TRUE(loaded.skipped.empty());
    }
  }
}

TEST(Store, LoadsACheckpointWithoutChunksAndStates) {
  MemoryFileSystem system;
  save(system, kDirectory, {});
  EXPECT_TRUE(load(system, kDirectory).contents == Contents());
}

TEST(Store, KeepsTheLastCheckpointsOverManySaves) {
  const std::uint64_t seed = 21;
  test::Rng rng(seed);
  const std::size_t lives = test::scaled(30, 3);
  for (std::size_t life = 0; life < lives; ++life) {
    MemoryFileSystem system;
    ContentsGenerator maker(rng.next(), static_cast<std::uint32_t>(rng.between(1, 30)));
    const std::size_t keep = rng.between(1, 3);
    std::map<std::uint64_t, Contents> kept;
    std::optional<ManifestId> base;
    for (int i = 0; i < 15; ++i) {
      SaveOptions options;
      options.keep = keep;
      options.incremental = rng.chance(0.9);
      options.compression.level = static_cast<int>(rng.below(3));
      const test::Saved saved = save(system, kDirectory, maker.next(), options, base);
      base = saved.id;
      kept[saved.result.manifest] = maker.now();
      if (kept.size() > keep) {
        kept.erase(kept.begin());
      }
      const Listing listing = list(system);
      ASSERT_EQ(listing.manifests.size(), kept.size()) << "seed " << seed;
      EXPECT_TRUE(listing.other.empty());
      // Loads every kept checkpoint, the newest first.
      std::uint64_t before = ~std::uint64_t{0};
      for (auto it = kept.rbegin(); it != kept.rend(); ++it) {
        const test::Loaded loaded = load(system, kDirectory, before);
        ASSERT_EQ(loaded.id.number, it->first);
        ASSERT_TRUE(loaded.contents == it->second) << "seed " << seed << ", life " << life;
        before = it->first;
      }
    }
  }
}

TEST(Store, AnIncrementalSaveWritesOnlyNewAndOpenChunks) {
  MemoryFileSystem system;
  Contents contents;
  test::Rng rng(1);
  for (std::uint32_t i = 0; i < 100; ++i) {
    contents.chunks[i] = {{i, 0, 10, i != 7}, test::random_bytes(rng, 1000)};
  }
  const test::Saved full = save(system, kDirectory, contents);
  EXPECT_EQ(full.result.chunks_written, 100U);
  contents.chunks[3] = {{3, 1, 10, true}, test::random_bytes(rng, 1000)};
  contents.chunks[7].bytes = test::random_bytes(rng, 500);
  const test::Saved next = save(system, kDirectory, contents, {}, full.id);
  EXPECT_EQ(next.result.chunks_written, 2U);
  EXPECT_EQ(next.result.chunks_reused, 98U);
  EXPECT_EQ(next.result.chunks_moved, 0U);
  EXPECT_LT(next.result.bytes_written, full.result.bytes_written / 10);
  EXPECT_TRUE(load(system, kDirectory).contents == contents);
  // A reader reads each file once, from beginning to end.
  const Snapshot snapshot = open_latest(system, kDirectory);
  EXPECT_TRUE(std::ranges::is_sorted(snapshot.chunks(), {}, [](const ChunkEntry& chunk) {
    return std::pair(chunk.at.file, chunk.at.place.offset);
  }));
  EXPECT_EQ(
      save(system, kDirectory, contents, {.incremental = false}, next.id).result.chunks_written,
      100U);
}

TEST(Store, ReusesNoChunkOfACheckpointThatIsNotTheBase) {
  MemoryFileSystem system;
  ContentsGenerator one(1, 10);
  ContentsGenerator other(2, 10);
  const test::Saved first = save(system, kDirectory, one.next());
  EXPECT_EQ(save(system, kDirectory, other.next()).result.chunks_reused, 0U) << "without a base";
  ManifestId wrong = first.id;
  wrong.checksum ^= 1U;
  EXPECT_EQ(save(system, kDirectory, one.now(), {.keep = 10}, wrong).result.chunks_reused, 0U);
  wrong = {99, 5};
  EXPECT_EQ(save(system, kDirectory, one.now(), {.keep = 10}, wrong).result.chunks_reused, 0U);
}

TEST(Store, ReusesAChunkOnlyIfItWasSavedClosedAndHasNotChanged) {
  MemoryFileSystem system;
  Contents contents;
  contents.chunks[0] = {{0, 5, 10, true}, ByteVector(10)};
  contents.chunks[1] = {{1, 5, 10, false}, ByteVector(10)};
  const test::Saved saved = save(system, kDirectory, contents);
  Saver saver(system, kDirectory, {}, saved.id);
  EXPECT_FALSE(saver.reuse_chunk({0, 6, 10, true}));
  EXPECT_FALSE(saver.reuse_chunk({0, 5, 9, true}));
  EXPECT_FALSE(saver.reuse_chunk({1, 5, 10, true}));
  EXPECT_FALSE(saver.reuse_chunk({1, 5, 10, false}));
  EXPECT_FALSE(saver.reuse_chunk({2, 5, 10, true}));
  EXPECT_TRUE(saver.reuse_chunk({0, 5, 10, true}));
}

TEST(Store, MovesTheLastChunksOutOfFilesThatAreMostlyUnused) {
  MemoryFileSystem system;
  test::Rng rng(1);
  Contents contents;
  for (std::uint32_t i = 0; i < 10; ++i) {
    contents.chunks[i] = {{i, 0, 10, true}, test::random_bytes(rng, 1000)};
  }
  std::optional<ManifestId> base;
  base = save(system, kDirectory, contents, {.keep = 1}).id;
  for (std::uint32_t i = 0; i < 6; ++i) {
    contents.chunks[i] = {{i, 1, 10, true}, test::random_bytes(rng, 1000)};
  }
  const test::Saved saved = save(system, kDirectory, contents, {.keep = 1}, base);
  EXPECT_EQ(saved.result.chunks_reused, 4U);
  EXPECT_EQ(saved.result.chunks_moved, 4U);
  EXPECT_TRUE(load(system, kDirectory).contents == contents);
  for (const DataName& name : list(system).data) {
    EXPECT_EQ(name.number, 2U) << "a file of the first save is still there";
  }
}

/// A file of another save replaces a file that the manifest names. The checksums of the file's
/// blocks are right, but its records have other checksums than the manifest says.
TEST(Store, DoesNotMoveARecordWhoseChecksumIsNotThatOfTheManifest) {
  MemoryFileSystem system;
  MemoryFileSystem other;
  Contents contents;
  Contents others;
  test::Rng rng(1);
  for (std::uint32_t i = 0; i < 10; ++i) {
    const ChunkId id{i, 0, 10, true};
    contents.chunks[i] = {id, test::random_bytes(rng, 1000)};
    others.chunks[i] = {id, test::random_bytes(rng, 1000)};
  }
  const test::Saved saved = save(system, kDirectory, contents);
  save(other, kDirectory, others);
  const std::string file = data_name({1, 0});
  system.put(file, other.files().at(file));
  for (std::uint32_t i = 0; i < 6; ++i) {
    contents.chunks[i].id.generation = 1;
  }
  test::expect_error(CheckpointError::Kind::Damaged,
                     [&] { save(system, kDirectory, contents, {}, saved.id); });
  EXPECT_THAT(list(system).manifests, testing::ElementsAre(1));
}

TEST(Store, TakesAtMostTwiceTheBytesOfItsRecords) {
  const std::uint64_t seed = 5;
  ContentsGenerator maker(seed, 60, 100);
  MemoryFileSystem system;
  system.stop_recording();
  std::optional<ManifestId> base;
  for (int i = 0; i < 60; ++i) {
    base = save(system, kDirectory, maker.next(), {.keep = 1}, base).id;
    std::uint64_t record_bytes = 4096;  // More than the records of the states.
    for (const auto& [index, chunk] : maker.now().chunks) {
      record_bytes += chunk.bytes.size() + record::BlockHeader::kBytes;
    }
    std::uint64_t file_bytes = 0;
    for (const auto& [name, bytes] : system.files()) {
      file_bytes += name.starts_with("data-") ? bytes.size() - record::FileHeader::kBytes : 0;
    }
    ASSERT_LE(file_bytes, 2 * record_bytes) << "after save " << i << ", seed " << seed;
  }
}

TEST(Store, TakesChunksFromSeveralThreadsAtOnce) {
  MemoryFileSystem system;
  system.stop_recording();
  Contents contents;
  test::Rng rng(8);
  for (std::uint32_t i = 0; i < 64; ++i) {
    contents.chunks[i] = {{i, 0, i, i % 5 != 0}, test::random_bytes(rng, rng.below(20'000))};
  }
  std::atomic<int> overlapping = 0;
  SaveOptions options;
  options.compression.level = 1;
  options.progress = [&](const SaveProgress& progress) {
    EXPECT_EQ(overlapping.fetch_add(1), 0)
        << "the saver calls `progress` from one thread at a time";
    EXPECT_LE(progress.chunks_written, 64U);
    overlapping.fetch_sub(1);
  };
  Saver saver(system, kDirectory, options);
  {
    std::vector<std::jthread> threads;
    test::start(threads, 4, [&](std::size_t t) {
      for (std::size_t i = t; i < 64; i += 4) {
        const test::ChunkContents& chunk = contents.chunks.at(static_cast<std::uint32_t>(i));
        saver.write_chunk(chunk.id, std::array{record::Bytes(chunk.bytes)});
      }
    });
  }
  EXPECT_EQ(saver.commit().chunks_written, 64U);
  EXPECT_TRUE(load(system, kDirectory).contents == contents);
}

TEST(Store, BeginsANewDataFileOnceOneIsFull) {
  constexpr std::uint64_t kFileBytes = 3000;
  MemoryFileSystem system;
  test::Rng rng(1);
  Contents contents;
  for (std::uint32_t i = 0; i < 10; ++i) {
    contents.chunks[i] = {{i, 0, 1, i < 6}, test::random_bytes(rng, 1000)};
  }
  save(system, kDirectory, contents, {}, {}, kFileBytes);
  // Three records fill a file. Closed chunks and open chunks are in different files.
  std::vector<std::uint64_t> sizes;
  for (const DataName& name : list(system).data) {
    sizes.push_back(system.files().at(data_name(name)).size());
  }
  constexpr std::uint64_t kThreeRecords =
      record::FileHeader::kBytes + 3 * (record::BlockHeader::kBytes + 1000);
  ASSERT_EQ(sizes.size(), 4U);
  EXPECT_EQ(std::vector(sizes.begin(), sizes.begin() + 3), std::vector(3, kThreeRecords));
  EXPECT_LT(sizes.back(), kFileBytes);
  EXPECT_TRUE(load(system, kDirectory).contents == contents);
}

TEST(Store, SplitsLargeSavesIntoSeveralDataFiles) {
  if (test::kThreadSanitizer) {
    GTEST_SKIP() << "oneTBB, which ThreadSanitizer does not know, reads files of this size";
  }
  MemoryFileSystem system;
  system.stop_recording();
  test::Rng rng(1);
  Contents contents;
  const ByteVector bytes = test::compressible_bytes(rng, std::size_t{33} << 20U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    contents.chunks[i] = {{i, 0, 1, true}, bytes};
  }
  save(system, kDirectory, contents);
  const Listing listing = list(system);
  EXPECT_EQ(listing.data.size(), 2U);
  EXPECT_TRUE(load(system, kDirectory).contents == contents);
}

}  // namespace
}  // namespace reprise::checkpoint
