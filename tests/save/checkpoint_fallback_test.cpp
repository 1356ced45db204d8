#include "../checkpoint/copied_checkpoint.hpp"
#include "../record/faulty_file_system.hpp"
#include "../record/memory_file_system.hpp"
#include "save/save.hpp"
#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/test.hpp"

#include <cerrno>

/// Tests in which the newest checkpoint has correct checksums but wrong contents, or is damaged
/// after the load has verified it.
namespace reprise::test {
namespace {

using Kind = CheckpointError::Kind;
using Change = std::function<void(CopiedCheckpoint&)>;

/// Two checkpoints: the first with 10 steps, the second with 30.
class TwoCheckpoints {
 public:
  TwoCheckpoints() : line_(SmallOptions{}) {
    Writer writer = line_.replay.writer();
    line_.append_many(writer, 0, 10);
    save();
    line_.append_many(writer, 10, 20);
    save();
  }

  /// The files of both checkpoints, after a change to each.
  [[nodiscard]] MemoryFiles files_with_changes(const Change& first, const Change& second) const {
    MemoryFileSystem files;
    const std::array changes{&first, &second};
    for (std::size_t i = 0; i < changes.size(); ++i) {
      CopiedCheckpoint changed = saved_[i];
      if (*changes[i]) {
        (*changes[i])(changed);
      }
      changed.write(files, kDirectory);
    }
    return files.files();
  }

 private:
  void save() {
    MemoryFileSystem files;
    save::save(*core_of(line_.replay), files, kDirectory, {}, {});
    saved_.emplace_back(files, kDirectory);
  }

  NumberedBuffer line_;
  std::vector<CopiedCheckpoint> saved_;
};

struct LoadedSize {
  std::size_t steps;
  std::vector<SkippedCheckpoint> skipped;
};

/// The number of steps that a load restores, and the checkpoints that it skipped.
LoadedSize loaded(record::FileSystem& files, const LoadOptions& options = {},
                  ReplayBuffer* like = nullptr) {
  NumberedBuffer line;
  save::Loaded made =
      save::load(files, kDirectory, options, like != nullptr ? core_of(*like).get() : nullptr);
  core_of(line.replay) = std::move(made.core);
  return {line.replay.size(), std::move(made.result.skipped)};
}

std::size_t loaded_size(record::FileSystem& files, const LoadOptions& options = {},
                        ReplayBuffer* like = nullptr) {
  return loaded(files, options, like).steps;
}

void truncate(CopiedCheckpoint::Contents& contents, std::size_t bytes) {
  contents.resize(contents.size() - bytes);
}

struct WrongContents {
  const char* what;
  Change change;
  Kind kind = Kind::Damaged;
};

std::vector<WrongContents> wrong_contents() {
  std::vector<WrongContents> all;
  for (const char* const name : {"schema", "options", "buffer", "shard-0"}) {
    all.push_back({name, [name](CopiedCheckpoint& c) { truncate(c.states.at(name), 1); }});
    all.push_back({name, [name](CopiedCheckpoint& c) { c.states.at(name).emplace_back(); }});
    all.push_back({name, [name](CopiedCheckpoint& c) { c.states.erase(name); }, Kind::Missing});
  }
  all.push_back({"a short chunk", [](CopiedCheckpoint& c) { truncate(c.chunks[1].second, 4); }});
  all.push_back({"a long chunk", [](CopiedCheckpoint& c) { c.chunks[1].second.resize(5000); }});
  all.push_back({"a chunk of others", [](CopiedCheckpoint& c) { ++c.chunks[1].first.generation; }});
  all.push_back({"no chunk", [](CopiedCheckpoint& c) { c.chunks.pop_back(); }});
  all.push_back({"a priority", [](CopiedCheckpoint& c) {
                   const float nan = -1234.5F;
                   auto& chunk = c.chunks[0].second;
                   std::memcpy(&chunk[chunk.size() - sizeof(nan)], &nan, sizeof(nan));
                 }});
  return all;
}

TEST(CheckpointFallback, WrongContentsArePassedOver) {
  const TwoCheckpoints two;
  ASSERT_EQ(
      [&] {
        MemoryFileSystem files(two.files_with_changes({}, {}));
        return loaded_size(files);
      }(),
      30U);
  for (const WrongContents& wrong : wrong_contents()) {
    SCOPED_TRACE(wrong.what);
    MemoryFileSystem files(two.files_with_changes({}, wrong.change));
    const MemoryFiles before = files.files();
    const auto [steps, skipped] = loaded(files);
    EXPECT_EQ(steps, 10U);
    ASSERT_EQ(skipped.size(), 1U);
    EXPECT_EQ(skipped[0].manifest, 2U);
    EXPECT_EQ(skipped[0].error.kind(), wrong.kind) << skipped[0].error.what();
    EXPECT_NE(skipped[0].error.file(), kDirectory) << skipped[0].error.what();
    EXPECT_EQ(files.files(), before);
  }
}

TEST(CheckpointFallback, WithNothingLeftTheErrorIsThatOfTheNewest) {
  const TwoCheckpoints two;
  const std::vector<WrongContents> all = wrong_contents();
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].what);
    MemoryFileSystem files(two.files_with_changes(all[(i + 1) % all.size()].change, all[i].change));
    const CheckpointError error = checkpoint_error_of([&] { (void)loaded_size(files); });
    EXPECT_EQ(error.kind(), all[i].kind) << error.what();
    EXPECT_NE(error.file().find(all[i].kind == Kind::Missing ? "manifest-00000000000000000002"
                                                             : "data-00000000000000000002"),
              std::string::npos)
        << error.what();
  }
}

/// If the newer checkpoint is not damaged, loading the older one would silently lose data.
TEST(CheckpointFallback, WhatIsNotDamagedIsNotPassedOver) {
  const TwoCheckpoints two;
  MemoryFileSystem newer(two.files_with_changes({}, [](CopiedCheckpoint& c) {
    c.states.at("shard-0")[0] = std::byte{9};  // The first byte is the version.
  }));
  EXPECT_EQ(checkpoint_error_of([&] { (void)loaded_size(newer); }).kind(), Kind::Unsupported);

  // If the newer one is damaged, the error is about it, whatever is wrong with the older one.
  MemoryFileSystem both(
      two.files_with_changes([](CopiedCheckpoint& c) { c.states.at("shard-0")[0] = std::byte{9}; },
                             [](CopiedCheckpoint& c) { truncate(c.states.at("buffer"), 1); }));
  EXPECT_EQ(checkpoint_error_of([&] { (void)loaded_size(both); }).kind(), Kind::Damaged);

  Options larger = SmallOptions{};
  larger.capacity_steps += 1;
  NumberedBuffer other(larger);
  MemoryFileSystem files(two.files_with_changes({}, {}));
  save::save(*core_of(other.replay), files, kDirectory, {}, {});
  NumberedBuffer line;
  EXPECT_EQ(checkpoint_error_of([&] { (void)loaded_size(files, {}, &line.replay); }).kind(),
            Kind::Mismatch);
}

/// Counts the calls to the file system that `work` makes.
template <class Work>
std::size_t calls_of(MemoryFileSystem& files, const Work& work) {
  std::size_t calls = 0;
  FaultyFileSystem counting(files, [&calls] { ++calls; });
  work(counting);
  return calls;
}

std::size_t calls_to_verify(MemoryFileSystem& files) {
  return calls_of(
      files, [](record::FileSystem& system) { (void)checkpoint::open_latest(system, kDirectory); });
}

TEST(CheckpointFallback, AFileThatChangesAfterItWasVerifiedIsPassedOver) {
  const TwoCheckpoints two;
  MemoryFileSystem sound(two.files_with_changes({}, {}));
  const std::size_t verified = calls_to_verify(sound);
  std::string name;
  for (const auto& [file, bytes] : sound.files()) {
    name = file.starts_with("data-") ? std::max(name, file) : name;
  }
  // Damages one byte of one block, or one byte between blocks.
  const std::size_t size = sound.files().at(name).size();
  for (std::size_t at = 64; at < size; at += 37) {
    SCOPED_TRACE(testing::Message() << name << ", byte " << at);
    MemoryFileSystem files(sound.files());
    std::size_t calls = 0;
    FaultyFileSystem changing(files, [&] {
      if (calls++ == verified) {
        auto bytes = files.files().at(name);
        bytes[at] ^= std::byte{1};
        files.put(name, bytes);
      }
    });
    const auto [steps, skipped] = loaded(changing);
    EXPECT_EQ(steps, 10U);
    ASSERT_EQ(skipped.size(), 1U);
    EXPECT_EQ(skipped[0].error.kind(), Kind::Damaged);
  }
}

/// A process without the permission to lock the directory starts its load again if a save removes
/// the checkpoint that the load has verified.
TEST(CheckpointFallback, ACheckpointThatASaveRemovesMeanwhileGivesWayToTheNewest) {
  MemoryFileSystem files;
  NumberedBuffer line;
  const auto save_more = [&](std::uint64_t first) {
    line.append_many(first, 10);
    save::save(*core_of(line.replay), files, kDirectory, {.keep = 1, .incremental = false}, {});
  };
  save_more(0);
  const std::size_t verified = calls_to_verify(files);
  FaultyFileSystem unlocked(files, {Call::Lock, 0, Fault::How::FailsForGood, EACCES});
  std::size_t calls = 0;
  FaultyFileSystem overtaken(unlocked, [&] {
    if (calls++ == verified) {
      save_more(10);
    }
  });
  const auto [steps, skipped] = loaded(overtaken);
  EXPECT_EQ(steps, 20U);
  EXPECT_TRUE(skipped.empty());
}

TEST(CheckpointFallback, AStopIsNoticedAlsoWhileFilesAreRead) {
  const TwoCheckpoints two;
  MemoryFileSystem files(two.files_with_changes({}, {}));
  const std::size_t verified = calls_to_verify(files);
  const std::size_t all =
      calls_of(files, [](record::FileSystem& system) { EXPECT_EQ(loaded_size(system), 30U); });
  ASSERT_GT(all, verified + 8);
  std::size_t cancelled = 0;
  for (std::size_t at = verified; at < all; ++at) {
    std::stop_source stop;
    std::size_t calls = 0;
    FaultyFileSystem stopping(files, [&] {
      if (calls++ == at) {
        stop.request_stop();
      }
    });
    try {
      EXPECT_EQ(loaded_size(stopping, {.stop = stop.get_token()}), 30U);
    } catch (const CheckpointError& error) {
      EXPECT_EQ(error.kind(), Kind::Cancelled) << error.what();
      ++cancelled;
    }
  }
  // After the last cancelled call, only the calls for the last chunk remain: open, size, header,
  // record.
  EXPECT_GE(cancelled + 4, all - verified);
}

}  // namespace
}  // namespace reprise::test
