#include "../record/faulty_file_system.hpp"
#include "../record/memory_file_system.hpp"
#include "base/text.hpp"
#include "checkpoint/names.hpp"
#include "contents.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace reprise::checkpoint {
namespace {

using test::Call;
using test::Contents;
using test::ContentsMaker;
using test::Fault;
using test::FaultyFileSystem;
using test::kCalls;
using test::load;
using test::MemoryFiles;
using test::MemoryFileSystem;
using test::save;
using How = test::Fault::How;

constexpr const char* kDirectory = "checkpoints";

std::string text(const Fault& fault) {
  return base::text(test::name_of(fault.call), " number ", fault.nth, ", ",
                    std::strerror(fault.error), ", way ", static_cast<int>(fault.how));
}

/// Two checkpoints, and what the third is to hold.
struct Before {
  MemoryFiles files;
  ManifestId base;
  Contents second;
  Contents third;
};

Before before() {
  MemoryFileSystem system;
  ContentsMaker maker(9, 8);
  const ManifestId first = save(system, kDirectory, maker.next()).id;
  Before result;
  result.base = save(system, kDirectory, maker.next(), {}, first).id;
  result.second = maker.now();
  result.files = system.files();
  result.third = maker.next();
  return result;
}

/// Every data file in the directory that no manifest there names, and every unfinished one.
std::vector<std::string> strays(MemoryFileSystem& system) {
  record::Folder folder(system, kDirectory, record::IfAbsent::Fail);
  std::set<DataName> named;
  for (const std::uint64_t number : manifest_numbers(folder.list())) {
    for (const DataFile& file : read_manifest(folder, number).files) {
      named.insert(file.first);
    }
  }
  std::vector<std::string> result;
  for (const std::string& name : folder.list()) {
    const auto data = parse_data_name(name);
    if ((data && !named.contains(*data)) || parse_unfinished_name(name)) {
      result.push_back(name);
    }
  }
  return result;
}

/// One save with a fault in it. Whether the fault was met.
bool save_with(const Before& start, const Fault& fault) {
  MemoryFileSystem system(start.files);
  FaultyFileSystem faulty(system, fault);
  bool saved = false;
  ManifestId base = start.base;
  try {
    base = save(faulty, kDirectory, start.third, {}, start.base).id;
    saved = true;
  } catch (const CheckpointError& error) {
    EXPECT_TRUE(faulty.struck()) << error.what();
    // What was done and reported as interrupted is found done when it is tried again.
    if (fault.how != How::DoneButFails) {
      EXPECT_EQ(error.kind(), CheckpointError::Kind::Io) << text(fault) << ": " << error.what();
      EXPECT_EQ(error.error_number(), fault.error) << text(fault);
    }
  }
  const bool harmless =
      fault.how == How::Short || (fault.how == How::Fails && fault.error == EINTR);
  EXPECT_TRUE(saved || !harmless) << text(fault);

  const test::Loaded loaded = load(system, kDirectory);
  EXPECT_TRUE(loaded.skipped.empty()) << text(fault);
  EXPECT_TRUE(loaded.contents == start.third || (!saved && loaded.contents == start.second))
      << text(fault);
  // The next save succeeds, and clears up.
  Contents fourth = start.third;
  fourth.states["more"] = test::ByteVector(5);
  save(system, kDirectory, fourth, {}, base);
  EXPECT_TRUE(load(system, kDirectory).contents == fourth) << text(fault);
  EXPECT_TRUE(strays(system).empty()) << text(fault);
  return faulty.struck();
}

TEST(Faults, OfAnyCallOfASaveLoseNothing) {
  const Before start = before();
  for (std::size_t call = 0; call < kCalls; ++call) {
    for (const How how : {How::Fails, How::FailsForGood, How::DoneButFails}) {
      for (const int error : {ENOSPC, EIO, EINTR, EACCES}) {
        Fault fault{static_cast<Call>(call), 0, how, error};
        while (save_with(start, fault)) {
          ++fault.nth;
        }
        EXPECT_GT(fault.nth, 0U) << "a save never does: " << test::name_of(fault.call);
      }
    }
  }
}

TEST(Faults, ShortReadsAndWritesGoOnWhereTheyStopped) {
  const Before start = before();
  for (const Call call : {Call::Read, Call::Write}) {
    Fault fault{call, 0, How::Short, 0};
    while (save_with(start, fault)) {
      ++fault.nth;
    }
    EXPECT_GT(fault.nth, 3U);
  }
}

TEST(Faults, OfTheFirstSaveLeaveNoCheckpointOrAWholeOne) {
  const Before start = before();
  for (std::size_t call = 0; call < kCalls; ++call) {
    for (const How how : {How::Fails, How::FailsForGood, How::DoneButFails}) {
      for (Fault fault{static_cast<Call>(call), 0, how, ENOSPC};; ++fault.nth) {
        MemoryFileSystem system;
        FaultyFileSystem faulty(system, fault);
        bool saved = false;
        try {
          save(faulty, kDirectory, start.third);
          saved = true;
        } catch (const CheckpointError&) {
          EXPECT_TRUE(faulty.struck());
        }
        try {
          EXPECT_TRUE(load(system, kDirectory).contents == start.third) << text(fault);
        } catch (const CheckpointError& error) {
          EXPECT_FALSE(saved) << text(fault) << ": " << error.what();
          EXPECT_EQ(error.kind(), CheckpointError::Kind::Missing) << text(fault);
        }
        if (!faulty.struck()) {
          break;
        }
      }
    }
  }
}

/// One load with a fault in it. Whether the fault was met.
bool load_with(const Before& start, const Fault& fault) {
  MemoryFileSystem system(start.files);
  FaultyFileSystem faulty(system, fault);
  try {
    const test::Loaded loaded = load(faulty, kDirectory);
    if (loaded.skipped.empty()) {
      EXPECT_TRUE(loaded.contents == start.second) << text(fault);
    } else {
      EXPECT_EQ(fault.error, EIO) << text(fault) << " is no reason to take an older checkpoint";
      EXPECT_EQ(loaded.id.number, 1U);
    }
  } catch (const CheckpointError& error) {
    EXPECT_EQ(error.kind(), CheckpointError::Kind::Io) << text(fault) << ": " << error.what();
    EXPECT_EQ(error.error_number(), fault.error) << text(fault);
    EXPECT_FALSE(fault.how == How::Short || (fault.how == How::Fails && fault.error == EINTR))
        << text(fault);
  }
  EXPECT_EQ(system.files(), start.files);
  return faulty.struck();
}

TEST(Faults, OfAnyCallOfALoadAreReported) {
  const Before start = before();
  for (const Call call :
       {Call::OpenDirectory, Call::Open, Call::Read, Call::Size, Call::List, Call::Lock}) {
    for (const How how : {How::Fails, How::FailsForGood}) {
      for (const int error : {EIO, EINTR, EMFILE}) {
        Fault fault{call, 0, how, error};
        while (load_with(start, fault)) {
          ++fault.nth;
        }
        EXPECT_GT(fault.nth, 0U) << "a load never does: " << test::name_of(call);
      }
    }
  }
  Fault fault{Call::Read, 0, How::Short, 0};
  while (load_with(start, fault)) {
    ++fault.nth;
  }
}

}  // namespace
}  // namespace reprise::checkpoint
