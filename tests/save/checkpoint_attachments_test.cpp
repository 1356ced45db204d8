// What users attach to a checkpoint: there with it, or not at all.
#include <reprise/reprise.hpp>

#include "../checkpoint/scratch_directory.hpp"
#include "../support/refusal.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace reprise::test {
namespace {

struct World {
  Schema schema;
  ScalarColumn<float> value = schema.column<float>("value");
  ReplayBuffer replay{schema, {.capacity_steps = 100}};

  void append(int steps) {
    Writer writer = replay.writer();
    writer.begin_episode();
    for (int i = 0; i < steps; ++i) {
      writer.now(value) = static_cast<float>(i);
      writer.commit();
    }
  }
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
  World world;
  world.append(10);
  const std::vector<float> first{1.0F, 2.0F, 3.0F};
  const std::vector<float> second(300'000, 0.5F);  // More than one block of the file.
  world.replay.save(directory.path(),
                    {.attachments = {attachment("parameters", first), attachment("empty", {})}});
  Attachments loaded{{"of before", {}}};
  EXPECT_EQ(ReplayBuffer::load(directory.path(), {.attachments = &loaded}).size(), 10U);
  ASSERT_EQ(loaded.size(), 2U);
  EXPECT_EQ(floats(loaded.at("parameters")), first);
  EXPECT_TRUE(loaded.at("empty").empty());

  world.append(5);
  for (const int level : {0, 3}) {
    world.replay.save(directory.path(), {.compression = {.level = level},
                                         .attachments = {attachment("parameters", second)}});
    world.replay.restore(directory.path(), {.attachments = &loaded});
    ASSERT_EQ(loaded.size(), 1U);
    EXPECT_EQ(floats(loaded.at("parameters")), second);
  }
  world.replay.save(directory.path());
  world.replay.restore(directory.path(), {.attachments = &loaded});
  EXPECT_TRUE(loaded.empty());
}

TEST(CheckpointAttachments, AreThoseOfTheOlderCheckpointWhereTheNewestIsDamaged) {
  const ScratchDirectory directory;
  World world;
  world.append(10);
  const std::array<float, 2> first{1.0F, 2.0F};
  const std::array<float, 2> second{3.0F, 4.0F};
  world.replay.save(directory.path(), {.attachments = {attachment("p", first)}});
  world.replay.save(directory.path(), {.attachments = {attachment("p", second)}});
  std::filesystem::path newest;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    if (entry.path().filename().string().starts_with("manifest")) {
      newest = std::max(newest, entry.path());
    }
  }
  ASSERT_FALSE(newest.empty());
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) - 1);
  Attachments loaded;
  std::vector<SkippedCheckpoint> skipped;
  const ReplayBuffer replay =
      ReplayBuffer::load(directory.path(), {.skipped = &skipped, .attachments = &loaded});
  EXPECT_EQ(skipped.size(), 1U);
  EXPECT_EQ(floats(loaded.at("p")), std::vector<float>(first.begin(), first.end()));
}

TEST(CheckpointAttachments, StayAsTheyWereWhereALoadFails) {
  const ScratchDirectory directory;
  Attachments loaded{{"of before", {}}};
  EXPECT_THROW(static_cast<void>(
                   ReplayBuffer::load(directory.path() + "/nothing", {.attachments = &loaded})),
               CheckpointError);
  EXPECT_EQ(loaded.size(), 1U);
}

TEST(CheckpointAttachments, RefusesNamesThatAreEmptyTooLongOrThereTwice) {
  const ScratchDirectory directory;
  World world;
  const auto save = [&](const std::vector<Attachment>& attachments) {
    world.replay.save(directory.path() + "/c", {.attachments = attachments});
  };
  expect_refusal<std::invalid_argument>([&] { save({attachment("", {})}); }, {"0 bytes"});
  expect_refusal<std::invalid_argument>([&] { save({attachment(std::string(201, 'a'), {})}); },
                                        {"201 bytes", "allowed: 1 to 200"});
  expect_refusal<std::invalid_argument>(
      [&] {
        save({attachment("a", {}), attachment("a", {})});
      },
      {"'a' is there twice"});
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/c"));
  save({attachment(std::string(200, 'a'), {})});
}

}  // namespace
}  // namespace reprise::test
