#include "../record/faulty_file_system.hpp"
#include "../record/memory_file_system.hpp"
#include "checkpoint/names.hpp"
#include "checkpoint/saver.hpp"
#include "checkpoint/snapshot.hpp"
#include "contents.hpp"
#include "listing.hpp"
#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/test.hpp"

#include <cerrno>

namespace reprise::checkpoint {
namespace {

using test::ByteVector;
using test::Contents;
using test::ContentsGenerator;
using test::expect_error;
using test::kDirectory;
using test::list;
using test::Listing;
using test::load;
using test::MemoryFiles;
using test::MemoryFileSystem;
using test::save;

TEST(StoreLife, LeavesTheDirectoryAsItWasIfASaverIsDestroyedWithoutACommit) {
  MemoryFileSystem system;
  ContentsGenerator maker(1, 5);
  const test::Saved saved = save(system, kDirectory, maker.next());
  const MemoryFiles before = system.files();
  {
    Saver saver(system, kDirectory, {}, saved.id);
    saver.write_chunk({0, 9, 1, true},
                      std::array{record::Bytes(maker.now().states.at("counters"))});
    saver.write_state("counters", {});
    EXPECT_NE(system.files(), before);
  }
  EXPECT_EQ(system.files(), before);
}

TEST(StoreLife, LeavesTheDirectoryAsItWasIfTheCommitFails) {
  MemoryFileSystem system;
  ContentsGenerator maker(1, 5);
  save(system, kDirectory, maker.next());
  const MemoryFiles before = system.files();
  test::FaultyFileSystem faulty(
      system, test::Fault{test::Call::Rename, 0, test::Fault::How::Fails, ENOSPC});
  EXPECT_THROW(save(faulty, kDirectory, maker.next()), CheckpointError);
  EXPECT_EQ(system.files(), before);
}

TEST(StoreLife, FallsBackToTheCheckpointBeforeADamagedOne) {
  MemoryFileSystem system;
  ContentsGenerator maker(1, 5);
  save(system, kDirectory, maker.next(), {.keep = 3, .incremental = false});
  const Contents first = maker.now();
  save(system, kDirectory, maker.next(), {.keep = 3, .incremental = false});
  const Contents second = maker.now();
  save(system, kDirectory, maker.next(), {.keep = 3, .incremental = false});
  const MemoryFiles whole = system.files();

  ByteVector manifest = whole.at(manifest_name(3));
  manifest[100] ^= std::byte{1};
  system.put(manifest_name(3), manifest);
  test::Loaded loaded = load(system, kDirectory);
  EXPECT_TRUE(loaded.contents == second);
  ASSERT_EQ(loaded.skipped.size(), 1U);
  EXPECT_EQ(loaded.skipped[0].manifest, 3U);
  EXPECT_EQ(loaded.skipped[0].error.kind(), CheckpointError::Kind::Damaged);
  EXPECT_EQ(loaded.skipped[0].error.file(), "checkpoints/" + manifest_name(3));

  system.erase(data_name({2, 0}));
  loaded = load(system, kDirectory);
  EXPECT_TRUE(loaded.contents == first);
  ASSERT_EQ(loaded.skipped.size(), 2U);
  EXPECT_EQ(loaded.skipped[1].error.kind(), CheckpointError::Kind::Missing);
  EXPECT_EQ(loaded.skipped[1].error.file(), "checkpoints/" + data_name({2, 0}));

  system.erase(manifest_name(1));
  EXPECT_EQ(test::checkpoint_error_of([&] { load(system, kDirectory); }).file(),
            "checkpoints/" + manifest_name(3))
      << "the error is that of the newest checkpoint";
}

TEST(StoreLife, ADamagedCheckpointIsNotCountedAsAKeptOne) {
  MemoryFileSystem system;
  ContentsGenerator maker(1, 5);
  save(system, kDirectory, maker.next());
  const Contents first = maker.now();
  save(system, kDirectory, maker.next());
  system.put(manifest_name(2), ByteVector(200));
  save(system, kDirectory, maker.next());
  EXPECT_THAT(list(system).manifests, testing::ElementsAre(1, 2, 3));
  EXPECT_TRUE(load(system, kDirectory, 3).contents == first);
  save(system, kDirectory, maker.next());
  EXPECT_THAT(list(system).manifests, testing::ElementsAre(3, 4));
}

TEST(StoreLife, RemovesWhatCrashedSavesLeft) {
  MemoryFileSystem system;
  ContentsGenerator maker(1, 5);
  save(system, kDirectory, maker.next());
  system.put(unfinished_name(8), ByteVector(10));
  system.put(data_name({9, 3}), ByteVector(10));
  system.put("something else", ByteVector(10));
  const test::Saved saved = save(system, kDirectory, maker.next());
  EXPECT_EQ(saved.result.manifest, 10U) << "above the numbers of all files";
  const Listing listing = list(system);
  EXPECT_THAT(listing.manifests, testing::ElementsAre(1, 10));
  EXPECT_THAT(listing.other, testing::ElementsAre("something else"));
  EXPECT_TRUE(std::ranges::find(listing.data, DataName{9, 3}) == listing.data.end());
}

TEST(StoreLife, TakesANumberAboveThatOfEveryFile) {
  for (const std::string& name : {manifest_name(8), unfinished_name(8), data_name({8, 0})}) {
    MemoryFileSystem system;
    save(system, kDirectory, {});
    system.put(name, ByteVector(10));
    EXPECT_EQ(save(system, kDirectory, {}).result.manifest, 9U) << name;
  }
}

/// A process without the permission to lock the directory may list its files before a save and open
/// them after it, when they are gone.
TEST(StoreLife, ListsTheDirectoryAgainIfASaveHasRemovedAFile) {
  MemoryFileSystem system;
  ContentsGenerator maker(1, 5);
  save(system, kDirectory, maker.next(), {.keep = 1});
  test::FaultyFileSystem unlocked(system,
                                  {test::Call::Lock, 0, test::Fault::How::FailsForGood, EACCES});
  bool overtaken = false;
  const test::FaultyFileSystem* calls = nullptr;
  test::FaultyFileSystem reading(unlocked, [&] {
    if (!overtaken && calls->calls(test::Call::List) == 1) {
      overtaken = true;
      save(system, kDirectory, maker.next(), {.keep = 1});
    }
  });
  calls = &reading;
  const test::Loaded loaded = load(reading, kDirectory);
  EXPECT_TRUE(overtaken);
  EXPECT_EQ(loaded.id.number, 2U);
  EXPECT_TRUE(loaded.contents == maker.now());
  EXPECT_TRUE(loaded.skipped.empty());
}

TEST(StoreLife, RemovesNothingWhileACheckpointIsBeingRead) {
  MemoryFileSystem system;
  ContentsGenerator maker(1, 5);
  save(system, kDirectory, maker.next(), {.keep = 1});
  const Contents first = maker.now();
  {
    const Snapshot snapshot = open_latest(system, kDirectory);
    save(system, kDirectory, maker.next(), {.keep = 1});
    EXPECT_THAT(list(system).manifests, testing::ElementsAre(1, 2));
    EXPECT_TRUE(test::read_all(snapshot) == first);
  }
  save(system, kDirectory, maker.next(), {.keep = 1});
  EXPECT_THAT(list(system).manifests, testing::ElementsAre(3));
}

TEST(StoreLife, RefusesASecondSaverAndOptionsOutOfRange) {
  MemoryFileSystem system;
  {
    const Saver saver(system, kDirectory, {});
    expect_error(CheckpointError::Kind::Locked, [&] { Saver(system, kDirectory, {}); });
  }
  save(system, kDirectory, {});
  test::expect_refusal<std::invalid_argument>([&] { save(system, kDirectory, {}, {.keep = 0}); },
                                              {"keep", "0", "1 to 1000"});
  test::expect_refusal<std::invalid_argument>(
      [&] { save(system, kDirectory, {}, {.compression = {.level = 20}}); },
      {"compression is of level 20", "0 to 19"});
}

TEST(StoreLife, ACommitFailsIfAReaderWouldRefuseTheCheckpoint) {
  MemoryFileSystem system;
  Saver saver(system, kDirectory, {});
  saver.write_chunk({1, 0, 1, true}, {});
  saver.write_chunk({1, 1, 1, true}, {});
  expect_error(CheckpointError::Kind::Damaged, [&] { saver.commit(); });
  EXPECT_TRUE(list(system).manifests.empty());
}

TEST(StoreLife, ReportsProgressAndIsCancelled) {
  MemoryFileSystem system;
  ContentsGenerator maker(1, 10);
  save(system, kDirectory, maker.next());
  const MemoryFiles before = system.files();
  std::stop_source stop;
  std::vector<SaveProgress> seen;
  SaveOptions options;
  options.incremental = false;
  options.stop = stop.get_token();
  options.progress = [&](const SaveProgress& progress) {
    seen.push_back(progress);
    if (seen.size() == 4) {
      stop.request_stop();
    }
  };
  expect_error(CheckpointError::Kind::Cancelled,
               [&] { save(system, kDirectory, maker.now(), options); });
  ASSERT_EQ(seen.size(), 4U);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].chunks_written, i + 1);
    EXPECT_EQ(seen[i].chunks_total, 10U);
  }
  EXPECT_EQ(system.files(), before);
  options.progress = [](const SaveProgress&) { throw std::runtime_error("enough"); };
  options.stop = {};
  EXPECT_THROW(save(system, kDirectory, maker.now(), options), std::runtime_error);
  EXPECT_EQ(system.files(), before);
}

TEST(StoreLife, LoadsAreCancelled) {
  MemoryFileSystem system;
  ContentsGenerator maker(1, 10, 8, 50);
  save(system, kDirectory, maker.next());
  std::stop_source stop;
  stop.request_stop();
  expect_error(CheckpointError::Kind::Cancelled,
               [&] { static_cast<void>(open_latest(system, kDirectory, stop.get_token())); });
}

TEST(StoreLife, AReaderVerifiesChecksumsAlsoAfterTheOpen) {
  MemoryFileSystem system;
  ContentsGenerator maker(1, 10, 8, 50);
  save(system, kDirectory, maker.next());
  const Snapshot snapshot = open_latest(system, kDirectory);
  for (const DataFile& file : snapshot.files()) {
    ByteVector bytes = system.files().at(data_name(file.first));
    bytes.back() ^= std::byte{1};
    system.put(data_name(file.first), bytes);
  }
  expect_error(CheckpointError::Kind::Damaged, [&] { test::read_all(snapshot); });
}

TEST(StoreLife, RefusesToReadIntoTheWrongSizeAndStatesThatDoNotExist) {
  MemoryFileSystem system;
  Contents contents;
  contents.chunks[0] = {{0, 0, 1, true}, ByteVector(10)};
  save(system, kDirectory, contents);
  const Snapshot snapshot = open_latest(system, kDirectory);
  Reader reader(snapshot);
  ByteVector room(9);
  expect_error(CheckpointError::Kind::Damaged, [&] {
    reader.read_chunk(snapshot.chunks()[0], std::array{record::WritableBytes(room)});
  });
  expect_error(CheckpointError::Kind::Missing,
               [&] { static_cast<void>(reader.read_state("counters")); });
}

}  // namespace
}  // namespace reprise::checkpoint
