#include "checkpoint/names.hpp"
#include "contents.hpp"
#include "record/posix_file_system.hpp"
#include "testing/faults/noted_syncs.hpp"
#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

#include <filesystem>

/// The order of the system calls by which a `Saver` makes a checkpoint survive a power failure.
namespace reprise::checkpoint {
namespace {

using test::Contents;
using test::ContentsGenerator;
using test::load;
using test::save;
using Calls = std::vector<std::string>;

/// One or two chunks fill a data file of this size.
constexpr std::uint64_t kFullBytes = 2000;

class Syncs : public testing::Test {
 protected:
  void SetUp() override { test::take_noted_calls(); }
  void TearDown() override { test::break_sync_of({}); }

  test::Saved save_next(std::optional<ManifestId> base = {}) {
    return save(system_, directory_, maker_.next(), {.keep = 1}, base, kFullBytes);
  }
  [[nodiscard]] std::string in(const std::string& name) const { return directory_ + "/" + name; }
  /// The recorded call "sync PATH" for each data file of a checkpoint.
  [[nodiscard]] Calls syncs_of_data(std::uint64_t number) const {
    Calls calls;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      const std::optional<DataName> data = parse_data_name(entry.path().filename().string());
      if (data && data->number == number) {
        calls.push_back("sync " + entry.path().string());
      }
    }
    return calls;
  }

  test::ScratchDirectory scratch_;
  const std::string parent_ = std::filesystem::canonical(scratch_.path());
  const std::string directory_ = parent_ + "/checkpoints";
  ContentsGenerator maker_{1, 6, 300};
  record::PosixFileSystem system_;
};

/// Removes the first n calls from a list and returns them.
Calls take(Calls& calls, std::size_t n) {
  const auto end = calls.begin() + static_cast<std::ptrdiff_t>(std::min(n, calls.size()));
  Calls first(calls.begin(), end);
  calls.erase(calls.begin(), end);
  return first;
}

TEST_F(Syncs, OfASaveAreInAnOrderThatSurvivesACrash) {
  std::optional<ManifestId> base;
  for (std::uint64_t number = 1; number <= 4; ++number) {
    SCOPED_TRACE(testing::Message() << "save " << number);
    base = save_next(base).id;
    Calls calls = test::take_noted_calls();
    const Calls data = syncs_of_data(number);
    EXPECT_GE(data.size(), 2U);
    // The parent is synced for the new directory, then the data files, their names and the
    // manifest; then the manifest is renamed, and its name synced.
    EXPECT_THAT(take(calls, 1), testing::ElementsAre("sync " + parent_));
    EXPECT_THAT(take(calls, data.size()), testing::UnorderedElementsAreArray(data));
    const std::string unfinished = in(unfinished_name(number));
    EXPECT_THAT(take(calls, 4),
                testing::ElementsAre("sync " + directory_, "sync " + unfinished,
                                     "rename " + unfinished + " " + manifest_name(number),
                                     "sync " + directory_));
    // The older manifest is removed and synced before its data files are removed.
    if (number > 1) {
      EXPECT_THAT(take(calls, 1), testing::ElementsAre("remove " + in(manifest_name(number - 1))));
    }
    EXPECT_THAT(take(calls, 1), testing::ElementsAre("sync " + directory_));
    EXPECT_THAT(calls, testing::Each(testing::StartsWith("remove " + in("data-"))));
  }
}

TEST_F(Syncs, ThatFailMakeTheSaveFail) {
  const ManifestId first = save_next().id;
  const Contents saved = maker_.now();
  const Calls calls = test::take_noted_calls();
  ASSERT_THAT(calls, testing::Contains("sync " + directory_));
  // The paths that the second save syncs.
  for (const std::string& broken : {parent_, directory_, in(data_name({2, 0})),
                                    in(data_name({2, 1})), in(unfinished_name(2))}) {
    SCOPED_TRACE(broken);
    test::break_sync_of(broken);
    const CheckpointError error = test::checkpoint_error_of([&] { save_next(first); });
    EXPECT_EQ(error.kind(), CheckpointError::Kind::Io) << error.what();
    EXPECT_EQ(error.error_number(), EIO) << error.what();
    EXPECT_TRUE(load(system_, directory_).contents == saved);
  }
}

}  // namespace
}  // namespace reprise::checkpoint
