#include "../record/faulty_file_system.hpp"
#include "../record/memory_file_system.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/names.hpp"
#include "save/save.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/test.hpp"

#include <cerrno>

/// Makes each file system call of a save or load fail once.
namespace reprise::test {
namespace {

using Kind = CheckpointError::Kind;
using How = Fault::How;

std::string describe_fault(const Fault& fault) {
  return base::text(name_of(fault.call), " number ", fault.nth, ", errno ", fault.error, ", way ",
                    static_cast<int>(fault.how));
}

/// Whether a save or load has to succeed despite this fault, because the call is only made again.
bool must_succeed(const Fault& fault) {
  return fault.how == How::Short || (fault.how == How::Fails && fault.error == EINTR);
}

/// The items of a buffer by number, with their probabilities.
std::map<std::uint64_t, double> contents(NumberedBuffer& line) {
  return line.probabilities(256);
}

Options tiny_options() {
  return SmallOptions{.capacity_steps = 16, .max_writers = 1, .chunk_steps = 4, .shards = 2};
}

/// A buffer that is saved repeatedly.
class SavedBuffer {
 public:
  SavedBuffer() : line_(tiny_options()), writer_(line_.replay.writer()) {}

  /// Appends some steps, some of them in new chunks.
  void append_some() {
    for (int i = 0; i < 5; ++i, ++number_) {
      ASSERT_EQ(line_.append(writer_, number_, static_cast<float>(1 + number_ % 7)),
                CommitStatus::Committed);
    }
  }
  SaveResult save(record::FileSystem& files) {
    return save::save(*core_of(line_.replay), files, kDirectory, {}, {});
  }
  std::map<std::uint64_t, double> now() { return contents(line_); }
  const buffer::BufferCore& core() { return *core_of(line_.replay); }

 private:
  NumberedBuffer line_;
  Writer writer_;
  std::uint64_t number_ = 0;
};

/// Loads the checkpoint. Returns its items with their probabilities; `skipped` gets the checkpoints
/// that the load skipped.
std::map<std::uint64_t, double> loaded_numbers(record::FileSystem& files,
                                               std::vector<SkippedCheckpoint>* skipped = nullptr,
                                               const buffer::BufferCore* like = nullptr) {
  NumberedBuffer line;
  save::Loaded made = save::load(files, kDirectory, {}, like);
  core_of(line.replay) = std::move(made.core);
  if (skipped != nullptr) {
    *skipped = std::move(made.result.skipped);
  }
  return contents(line);
}

/// The unfinished files in the directory, and the data files that no manifest names.
std::vector<std::string> stray_files(MemoryFileSystem& system) {
  record::Folder folder(system, kDirectory, record::IfAbsent::Fail);
  std::set<checkpoint::DataName> named;
  for (const std::uint64_t number : checkpoint::manifest_numbers(folder.list())) {
    for (const checkpoint::DataFile& file : checkpoint::read_manifest(folder, number).files) {
      named.insert(file.first);
    }
  }
  std::vector<std::string> result;
  for (const std::string& name : folder.list()) {
    const auto data = checkpoint::parse_data_name(name);
    if ((data && !named.contains(*data)) || checkpoint::parse_unfinished_name(name)) {
      result.push_back(name);
    }
  }
  return result;
}

/// Makes one save with a fault. Returns whether the fault occurred.
bool save_with(SavedBuffer& buffer, MemoryFileSystem& files, const Fault& fault) {
  SCOPED_TRACE(describe_fault(fault));
  buffer.save(files);
  const auto before = buffer.now();
  buffer.append_some();
  const auto after = buffer.now();
  FaultyFileSystem faulty(files, fault);
  bool saved = false;
  try {
    buffer.save(faulty);
    saved = true;
  } catch (const CheckpointError& error) {
    EXPECT_TRUE(faulty.fault_occurred()) << error.what();
    EXPECT_FALSE(must_succeed(fault)) << error.what();
    EXPECT_NE(error.file().find(kDirectory), std::string::npos) << error.what();
    // If the call did its work but failed, a retry may fail with another error, because it finds
    // the work done.
    if (fault.how != How::DoneButFails) {
      EXPECT_EQ(error.kind(), Kind::Io) << error.what();
      EXPECT_EQ(error.error_number(), fault.error);
    }
  }
  // Only the clean-up after the save, which syncs the directory a third time, may fail without an
  // error.
  if (fault.call == Call::Write || fault.call == Call::SyncFile ||
      (fault.call == Call::SyncDirectory && fault.nth < 2)) {
    EXPECT_FALSE(saved && faulty.fault_occurred() && !must_succeed(fault) && fault.error != EINTR);
  }
  std::vector<SkippedCheckpoint> skipped;
  const auto found = loaded_numbers(files, &skipped);
  EXPECT_TRUE(skipped.empty());
  EXPECT_TRUE(found == after || (!saved && found == before));
  // The buffer still works, and its next save succeeds and cleans up.
  buffer.append_some();
  buffer.save(files);
  EXPECT_TRUE(loaded_numbers(files) == buffer.now());
  EXPECT_TRUE(stray_files(files).empty());
  return faulty.fault_occurred();
}

TEST(CheckpointFaults, OfAnyCallOfASaveLoseNothing) {
  SavedBuffer buffer;
  MemoryFileSystem files;
  files.stop_recording();
  buffer.append_some();
  for (std::size_t call = 0; call < kCalls; ++call) {
    for (const How how : {How::Fails, How::FailsForGood, How::DoneButFails}) {
      for (const int error : {ENOSPC, EIO, EINTR, EROFS}) {
        Fault fault{static_cast<Call>(call), 0, how, error};
        while (save_with(buffer, files, fault) && !HasFailure()) {
          ++fault.nth;
        }
        EXPECT_GT(fault.nth, 0U) << "a save never does: " << name_of(fault.call);
      }
    }
  }
  for (const Call call : {Call::Read, Call::Write}) {
    Fault fault{call, 0, How::Short, 0};
    while (save_with(buffer, files, fault) && !HasFailure()) {
      ++fault.nth;
    }
    EXPECT_GT(fault.nth, 3U);
  }
}

/// A buffer whose next save copies the chunks in use from a sparsely used file of its base.
struct Sparse {
  Sparse() {
    for (int i = 0; i < 4; ++i) {
      buffer.append_some();
    }
    buffer.save(files);
    for (int i = 0; i < 2; ++i) {
      buffer.append_some();
    }
  }
  MemoryFileSystem files;
  SavedBuffer buffer;
};

TEST(CheckpointFaults, ADamagedBaseGivesWayToAFullSave) {
  Sparse sound;
  ASSERT_GT(sound.buffer.save(sound.files).chunks_moved, 0U);
  Sparse damaged;
  for (const auto& [name, bytes] : damaged.files.files()) {
    if (name.starts_with("data-")) {
      auto changed = bytes;
      std::for_each(changed.begin() + 64, changed.end(),
                    [](std::byte& byte) { byte ^= std::byte{1}; });
      damaged.files.put(name, changed);
    }
  }
  const SaveResult result = damaged.buffer.save(damaged.files);
  EXPECT_EQ(result.chunks_reused, 0U);
  EXPECT_GT(result.chunks_written, 2U);
  EXPECT_TRUE(loaded_numbers(damaged.files) == damaged.buffer.now());
}

TEST(CheckpointFaults, ABaseThatTheDiskCannotReadIsForgottenByTheNextSave) {
  std::size_t failed = 0;
  for (Fault fault{Call::Read, 0, How::Fails, EIO};; ++fault.nth) {
    SCOPED_TRACE(describe_fault(fault));
    Sparse sparse;
    FaultyFileSystem faulty(sparse.files, fault);
    try {
      sparse.buffer.save(faulty);
    } catch (const CheckpointError& error) {
      EXPECT_EQ(error.error_number(), EIO);
      EXPECT_EQ(sparse.buffer.save(sparse.files).chunks_reused, 0U);
      ++failed;
    }
    EXPECT_TRUE(loaded_numbers(sparse.files) == sparse.buffer.now());
    if (!faulty.fault_occurred()) {
      break;
    }
  }
  EXPECT_GT(failed, 0U);
}

/// A save that fails after it has written all chunks has saved nothing, so the next save writes
/// them again.
TEST(CheckpointFaults, OfTheManifestLeaveChangedValuesToTheNextSave) {
  Schema schema;
  const auto id = schema.observation<std::uint64_t>("id");
  const auto value = schema.mutable_column<float>("value");
  ReplayBuffer replay(schema, SmallOptions{.selectors = {Fifo{}}});
  Writer writer = replay.writer();
  writer.begin_episode();
  writer.now(id) = 0;
  for (std::uint64_t i = 1; i <= 40; ++i) {
    writer.now(value) = 0.0F;
    writer.next(id) = i;
    ASSERT_EQ(writer.commit(), CommitStatus::Committed);
  }
  MemoryFileSystem files;
  const auto save = [&](record::FileSystem& to) {
    return save::save(*core_of(replay), to, kDirectory, {}, {});
  };
  save(files);
  const ItemKey oldest = as_lvalue(replay.sampler()).sample(1, kNoWait)->keys()[0];
  const float changed = 7.0F;
  EXPECT_EQ(replay.update({&oldest, 1}, value, {&changed, 1}).applied, 1U);
  FaultyFileSystem faulty(files, Fault{Call::Rename, 0, How::Fails, ENOSPC});
  EXPECT_THROW(save(faulty), CheckpointError);
  EXPECT_TRUE(faulty.fault_occurred());
  EXPECT_GT(save(files).chunks_reused, 0U);
  core_of(replay) = save::load(files, kDirectory, {}, nullptr).core;
  const Batch loaded = replay.gather({&oldest, 1});
  ASSERT_EQ(loaded.lengths()[0], 1U);
  EXPECT_EQ(loaded.now(value)[0], changed);
}

TEST(CheckpointFaults, OfTheFirstSaveLeaveNoCheckpointOrAWholeOne) {
  for (std::size_t call = 0; call < kCalls; ++call) {
    for (const How how : {How::Fails, How::FailsForGood, How::DoneButFails}) {
      bool met = true;
      for (Fault fault{static_cast<Call>(call), 0, how, ENOSPC}; met; ++fault.nth) {
        SCOPED_TRACE(describe_fault(fault));
        MemoryFileSystem files;
        FaultyFileSystem faulty(files, fault);
        SavedBuffer buffer;
        buffer.append_some();
        bool saved = false;
        try {
          buffer.save(faulty);
          saved = true;
        } catch (const CheckpointError&) {
          EXPECT_TRUE(faulty.fault_occurred());
        }
        try {
          EXPECT_TRUE(loaded_numbers(files) == buffer.now());
        } catch (const CheckpointError& error) {
          EXPECT_FALSE(saved) << error.what();
          EXPECT_EQ(error.kind(), Kind::Missing);
        }
        met = faulty.fault_occurred();
      }
    }
  }
}

struct TwoCheckpointFiles {
  MemoryFiles files;
  std::map<std::uint64_t, double> first;
  std::map<std::uint64_t, double> second;
};

/// Makes one load with a fault from files with two checkpoints. Returns whether the fault occurred.
bool load_with(const TwoCheckpointFiles& two, SavedBuffer& like, const Fault& fault) {
  SCOPED_TRACE(describe_fault(fault));
  MemoryFileSystem files(two.files);
  FaultyFileSystem faulty(files, fault);
  try {
    std::vector<SkippedCheckpoint> skipped;
    const auto found = loaded_numbers(faulty, &skipped, &like.core());
    if (skipped.empty()) {
      EXPECT_TRUE(found == two.second);
    } else {
      // The fault may occur before or after the newest checkpoint is verified.
      EXPECT_EQ(fault.error, EIO) << "no reason to take an older checkpoint";
      EXPECT_TRUE(found == two.first);
    }
  } catch (const CheckpointError& error) {
    EXPECT_EQ(error.kind(), Kind::Io) << error.what();
    EXPECT_EQ(error.error_number(), fault.error);
    EXPECT_NE(error.file().find(kDirectory), std::string::npos) << error.what();
    EXPECT_FALSE(must_succeed(fault)) << error.what();
    // If only this read failed, the load should have taken the older checkpoint.
    EXPECT_FALSE(fault.error == EIO && fault.how == How::Fails && fault.call == Call::Read)
        << error.what();
  }
  EXPECT_EQ(files.files(), two.files);
  EXPECT_TRUE(like.now() == two.second) << "the buffer that was there";
  return faulty.fault_occurred();
}

TEST(CheckpointFaults, OfAnyCallOfALoadAreReported) {
  SavedBuffer buffer;
  TwoCheckpointFiles two;
  MemoryFileSystem files;
  buffer.append_some();
  buffer.save(files);
  two.first = buffer.now();
  buffer.append_some();
  buffer.save(files);
  two.second = buffer.now();
  two.files = files.files();
  for (const Call call :
       {Call::OpenDirectory, Call::Open, Call::Read, Call::Size, Call::List, Call::Lock}) {
    for (const How how : {How::Fails, How::FailsForGood}) {
      for (const int error : {EIO, EINTR, EACCES}) {
        Fault fault{call, 0, how, error};
        while (load_with(two, buffer, fault) && !HasFailure()) {
          ++fault.nth;
        }
        EXPECT_GT(fault.nth, 0U) << "a load never does: " << name_of(call);
      }
    }
  }
  Fault fault{Call::Read, 0, How::Short, 0};
  while (load_with(two, buffer, fault) && !HasFailure()) {
    ++fault.nth;
  }
}

}  // namespace
}  // namespace reprise::test
