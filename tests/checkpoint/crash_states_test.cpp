#include "crash_states.hpp"

#include "contents.hpp"
#include "testing/test.hpp"

namespace reprise::checkpoint {
namespace {

using test::Contents;
using test::ContentsGenerator;
using test::kDirectory;
using test::load;
using test::MemoryFiles;
using test::MemoryFileSystem;
using test::Operation;
using test::save;
using test::Unsynced;

/// One or two chunks fill a data file of this size, so some saves write several files.
constexpr std::uint64_t kFullBytes = 2000;

/// The operations of several saves, with a mark after each completed save, and the contents that
/// each save wrote.
struct SaveHistory {
  std::vector<Operation> operations;
  std::vector<Contents> contents{{}};
};

SaveHistory run_saves(std::uint64_t seed, std::size_t keep, int level, int saves) {
  SaveHistory history;
  MemoryFileSystem system;
  // With rows of 300 bytes, blocks have several sectors.
  ContentsGenerator maker(seed, 6, 300);
  std::optional<ManifestId> base;
  for (int i = 0; i < saves; ++i) {
    const test::Saved saved =
        save(system, kDirectory, maker.next(), {.compression = {.level = level}, .keep = keep},
             base, kFullBytes);
    base = saved.id;
    system.mark(saved.result.manifest);
    history.contents.push_back(maker.now());
  }
  history.operations = system.operations();
  return history;
}

/// The number of the last save that was completed within these operations; 0 if none was.
std::uint64_t last_completed(std::span<const Operation> operations) {
  std::uint64_t number = 0;
  for (const Operation& operation : operations) {
    number = operation.kind == Operation::Kind::Mark ? operation.file : number;
  }
  return number;
}

/// Succeeds if the files that a crash left hold checkpoint `completed`, which was completed before
/// the crash, or the next checkpoint. With `then_save`, the next save must work as well.
testing::AssertionResult survives(const SaveHistory& history, std::uint64_t completed,
                                  const MemoryFiles& files, bool then_save) {
  MemoryFileSystem system(files);
  std::optional<ManifestId> base;
  try {
    const test::Loaded loaded = load(system, kDirectory);
    const std::uint64_t number = loaded.id.number;
    if (!loaded.skipped.empty()) {
      return testing::AssertionFailure()
             << "a manifest reached the disk before its data: " << loaded.skipped[0].error.what();
    }
    if (number != completed && number != completed + 1) {
      return testing::AssertionFailure() << "found checkpoint " << number;
    }
    if (!(loaded.contents == history.contents.at(number))) {
      return testing::AssertionFailure() << "checkpoint " << number << " is not what was saved";
    }
    base = loaded.id;
  } catch (const CheckpointError& error) {
    if (completed > 0 || error.kind() != CheckpointError::Kind::Missing) {
      return testing::AssertionFailure() << error.what();
    }
  }
  if (then_save) {
    const Contents& next = history.contents.back();
    save(system, kDirectory, next, {.incremental = false}, base);
    if (!(load(system, kDirectory).contents == next)) {
      return testing::AssertionFailure() << "the next save is not what was saved";
    }
  }
  return testing::AssertionSuccess();
}

TEST(CrashStates, AtAnyMomentHoldTheLastCompletedCheckpointOrTheNext) {
  const std::uint64_t seed = 41;
  test::Rng rng(seed);
  const std::size_t max_states = test::scaled(20'000, 2'000);
  std::size_t states = 0;
  for (std::uint64_t round = 0; states < max_states; ++round) {
    const std::size_t keep = 1 + round % 3;
    const SaveHistory history = run_saves(rng.next(), keep, static_cast<int>(round % 2), 4);
    for (std::size_t n = 0; n <= history.operations.size() && states < max_states; ++n) {
      const std::span<const Operation> until(history.operations.data(), n);
      const std::uint64_t completed = last_completed(until);
      const auto check = [&](Unsynced unsynced) {
        const MemoryFiles files = test::files_after_crash(until, unsynced, rng);
        ASSERT_TRUE(survives(history, completed, files, states % 8 == 0))
            << "after " << n << " of " << history.operations.size() << " operations, round "
            << round << ", seed " << seed << ", completed " << completed;
        ++states;
      };
      check(Unsynced::None);
      check(Unsynced::All);
      for (int i = 0; i < 8; ++i) {
        check(Unsynced::AtRandom);
        if (testing::Test::HasFatalFailure()) {
          return;
        }
      }
    }
  }
  RecordProperty("states", static_cast<int>(states));
}

/// Tests the test above: without the syncs of one kind, `survives` must fail in some state.
TEST(CrashStates, WithoutSyncsLoseACheckpoint) {
  const std::uint64_t seed = 42;
  test::Rng rng(seed);
  const SaveHistory history = run_saves(seed, 1, 0, 3);
  for (const Operation::Kind kind : {Operation::Kind::SyncFile, Operation::Kind::SyncDirectory}) {
    std::vector<Operation> without_syncs;
    std::ranges::copy_if(history.operations, std::back_inserter(without_syncs),
                         [&](const Operation& operation) { return operation.kind != kind; });
    bool caught = false;
    for (std::size_t n = 0; n <= without_syncs.size() && !caught; ++n) {
      const std::span<const Operation> until(without_syncs.data(), n);
      for (int i = 0; i < 8 && !caught; ++i) {
        caught = !survives(history, last_completed(until),
                           test::files_after_crash(until, Unsynced::AtRandom, rng), false);
      }
    }
    EXPECT_TRUE(caught);
  }
}

}  // namespace
}  // namespace reprise::checkpoint
