#include "checkpoints.hpp"

#include "lunar_lander.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace apex {
namespace {

constexpr NetworkShape kShape{LunarLander::kObservations, 16, LunarLander::kActions};

class Checkpoints : public testing::Test {
 protected:
  Checkpoints() {
    std::string path = testing::TempDir() + "apex-XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  ~Checkpoints() override { std::filesystem::remove_all(directory_); }
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  [[nodiscard]] Options saving() const {
    Options options;
    options.checkpoint_path = directory_;
    options.checkpoint_seconds = 1e-9;
    return options;
  }
  [[nodiscard]] Options resuming() const {
    Options options;
    options.resume_path = directory_;
    return options;
  }

  std::string directory_;
};

reprise::Schema schema() {
  reprise::Schema schema;
  schema.column<float>("value");
  return schema;
}

/// One update on a batch that the number decides.
void update(Learner& learner, unsigned number) {
  std::mt19937 random(number);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  const auto draw = [&](std::size_t n) {
    std::vector<float> values(n);
    std::generate(values.begin(), values.end(), [&] { return uniform(random); });
    return values;
  };
  constexpr std::size_t kBatch = 8;
  auto now = draw(kBatch * LunarLander::kObservations);
  auto next = draw(kBatch * LunarLander::kObservations);
  auto returns = draw(kBatch);
  std::vector<std::int32_t> actions(kBatch, static_cast<std::int32_t>(number % 4));
  std::vector<float> ones(kBatch, 1.0F);
  learner.step(now, actions, returns, ones, next, ones);
}

std::vector<float> parameters(const Learner& learner) {
  std::vector<float> all;
  for (const torch::Tensor& part : learner.network()->parameters()) {
    all.insert(all.end(), part.data_ptr<float>(), part.data_ptr<float>() + part.numel());
  }
  return all;
}

TEST(LearnerState, GoesOnAsIfNothingHadHappened) {
  Learner first(kShape, {}, 1);
  for (unsigned i = 0; i < 20; ++i) {
    update(first, i);
  }
  Learner second(kShape, {}, 2);
  second.load(first.save());
  for (unsigned i = 20; i < 40; ++i) {
    update(first, i);
    update(second, i);
    ASSERT_EQ(parameters(first), parameters(second)) << "update " << i;
  }
}

TEST(LearnerState, OfAnotherShapeIsRefused) {
  const Learner small({LunarLander::kObservations, 8, LunarLander::kActions}, {}, 1);
  Learner large(kShape, {}, 1);
  EXPECT_THROW(large.load(small.save()), std::runtime_error);
}

TEST_F(Checkpoints, BringBufferAndLearnerBack) {
  Learner learner(kShape, {}, 1);
  reprise::ReplayBuffer replay(schema(), {.capacity_steps = 100});
  {
    reprise::Schema fields;
    const auto value = fields.column<float>("value");
    reprise::Writer writer = replay.writer();
    writer.begin_episode();
    for (int i = 0; i < 30; ++i) {
      writer.now(value) = 1.0F;
      writer.commit();
    }
  }
  Checkpointer checkpointer(saving(), replay, {.parts = 3, .seconds = 100.0});
  update(learner, 1);
  checkpointer.offer(learner);
  update(learner, 2);
  checkpointer.save_last(learner);

  Learner other(kShape, {}, 2);
  reprise::ReplayBuffer restored(schema(), {.capacity_steps = 100});
  const Past past = resume(resuming(), restored, other);
  EXPECT_EQ(past.parts, 4U);
  EXPECT_GE(past.seconds, 100.0);
  EXPECT_EQ(restored.size(), 30U);
  EXPECT_EQ(parameters(other), parameters(learner));
}

TEST_F(Checkpoints, AreNotMadeAmongThoseOfAnotherRun) {
  Learner learner(kShape, {}, 1);
  reprise::ReplayBuffer replay(schema(), {.capacity_steps = 100});
  Checkpointer(saving(), replay, {}).save_last(learner);
  EXPECT_THROW(Checkpointer(saving(), replay, {}), std::runtime_error);
  EXPECT_NO_THROW(Checkpointer(resuming(), replay, {}));
}

TEST_F(Checkpoints, OfOtherProgramsAreRefused) {
  Learner learner(kShape, {}, 1);
  reprise::ReplayBuffer replay(schema(), {.capacity_steps = 100});
  replay.save(directory_);
  EXPECT_THROW(static_cast<void>(resume(resuming(), replay, learner)), std::runtime_error);
}

TEST_F(Checkpoints, WithoutADirectoryAreNotMade) {
  Learner learner(kShape, {}, 1);
  reprise::ReplayBuffer replay(schema(), {.capacity_steps = 100});
  Checkpointer checkpointer(Options{}, replay, {});
  checkpointer.offer(learner);
  checkpointer.save_last(learner);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

}  // namespace
}  // namespace apex
