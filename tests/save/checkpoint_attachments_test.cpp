// A checkpoint has all of the user's attachments, or there is no checkpoint.
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

#include <filesystem>

namespace reprise::test {
namespace {

/// A buffer with 10 steps.
struct AttachedTenSteps : NumberedBuffer {
  AttachedTenSteps() { append_many(writer, 0, 10); }

  Writer writer = replay.writer();
};

Attachment attachment(const std::string& name, std::span<const float> values) {
  return {name, std::as_bytes(values)};
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

TEST(CheckpointAttachments, ComeBackByNameWithTheCheckpointTheyBelongTo) {
  const ScratchDirectory directory;
  AttachedTenSteps ten;
  const std::vector<float> first{1.0F, 2.0F, 3.0F};
  // This attachment takes more than one block of the file.
  const std::vector<float> second(300'000, 0.5F);
  ten.replay.save(directory.path(),
                  {.attachments = {attachment("parameters", first), attachment("empty", {})}});
  const LoadResult result = ReplayBuffer::load(directory.path());
  EXPECT_EQ(result.buffer.size(), 10U);
  EXPECT_TRUE(result.skipped.empty());
  const Attachments& loaded = result.attachments;
  ASSERT_EQ(loaded.size(), 2U);
  EXPECT_EQ(floats(loaded.at("parameters")), first);
  EXPECT_TRUE(loaded.at("empty").empty());

  ten.append_many(ten.writer, 10, 5);
  for (const int level : {0, 3}) {
    ten.replay.save(directory.path(), {.compression = {.level = level},
                                       .attachments = {attachment("parameters", second)}});
    const Attachments restored = ten.replay.restore(directory.path()).attachments;
    ASSERT_EQ(restored.size(), 1U);
    EXPECT_EQ(floats(restored.at("parameters")), second);
  }
  ten.replay.save(directory.path());
  EXPECT_TRUE(ten.replay.restore(directory.path()).attachments.empty());
}

TEST(CheckpointAttachments, AreThoseOfTheOlderCheckpointWhereTheNewestIsDamaged) {
  const ScratchDirectory directory;
  AttachedTenSteps ten;
  const std::array<float, 2> first{1.0F, 2.0F};
  const std::array<float, 2> second{3.0F, 4.0F};
  ten.replay.save(directory.path(), {.attachments = {attachment("p", first)}});
  ten.append_many(ten.writer, 10, 5);
  ten.replay.save(directory.path(), {.attachments = {attachment("p", second)}});
  std::filesystem::path newest;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    if (entry.path().filename().string().starts_with("manifest")) {
      newest = std::max(newest, entry.path());
    }
  }
  ASSERT_FALSE(newest.empty());
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) - 1);
  const auto expect_the_first = [&](std::span<const SkippedCheckpoint> skipped,
                                    const Attachments& loaded) {
    ASSERT_EQ(skipped.size(), 1U);
    EXPECT_EQ(skipped[0].manifest, 2U);
    EXPECT_EQ(skipped[0].error.kind(), CheckpointError::Kind::Damaged);
    EXPECT_EQ(floats(loaded.at("p")), std::vector<float>(first.begin(), first.end()));
  };
  const auto [replay, skipped, loaded] = ReplayBuffer::load(directory.path());
  EXPECT_EQ(replay.size(), 10U);
  expect_the_first(skipped, loaded);
  const RestoreResult restored = ten.replay.restore(directory.path());
  EXPECT_EQ(ten.replay.size(), 10U);
  expect_the_first(restored.skipped, restored.attachments);
}

TEST(CheckpointAttachments, RefusesNamesThatAreEmptyTooLongThereTwiceOrHaveANul) {
  const ScratchDirectory directory;
  AttachedTenSteps ten;
  const auto save = [&](const std::vector<Attachment>& attachments) {
    ten.replay.save(directory.path() + "/c", {.attachments = attachments});
  };
  expect_refusal([&] { save({attachment("", {})}); }, {"0 bytes"});
  expect_refusal([&] { save({attachment(std::string(201, 'a'), {})}); },
                 {"201 bytes", "allowed: 1 to 200"});
  expect_refusal([&] { save({attachment("a", {}), attachment("a", {})}); }, {"'a' is there twice"});
  expect_refusal([&] { save({attachment(std::string("net\0b", 5), {})}); },
                 {"name 'net...' has a NUL", "allowed: any other character"});
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/c"));
  save({attachment(std::string(200, 'a'), {})});
}

}  // namespace
}  // namespace reprise::test
