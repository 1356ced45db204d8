#include "testing/fixtures/any_values.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr std::size_t kEnvironments = 3;

/// Environment e observes 10,000 e + 100 * (its episode) + (its step). This is the first
/// observation of its next episode.
constexpr std::uint64_t first_of_next_episode(std::uint64_t seen) {
  return (seen / 100 + 1) * 100;
}

/// Simulators that count their steps.
struct Simulators {
  explicit Simulators(AutoReset how, const Options& options = SmallOptions{.capacity_steps = 2000,
                                                                           .episode_index = true})
      : mode(how), line(options), writers(line.replay, kEnvironments, {.timeout = 0ns}, how) {
    for (std::size_t e = 0; e < kEnvironments; ++e) {
      seen.push_back(10'000 * e);
    }
  }
  [[nodiscard]] std::vector<AnyValue> first() const { return {now_of(line.id, seen)}; }
  /// Steps all environments. An environment ends as `wanted` says, unless this step resets it.
  void step(std::span<const End> wanted) {
    actions = seen;
    ends.assign(wanted.begin(), wanted.end());
    finals.assign(kEnvironments, 77);  // The value is only read where an episode ends.
    for (std::size_t e = 0; e < kEnvironments; ++e) {
      const std::uint64_t after_reset = first_of_next_episode(seen[e]);
      if (resets[e]) {
        resets[e] = false;
        actions[e] = 99'999;  // Neither the action nor the end of a step that resets is stored.
        seen[e] = after_reset;
        continue;
      }
      ++seen[e];
      if (ends[e] == End::Continue) {
        continue;
      }
      if (mode == AutoReset::SameStep) {
        finals[e] = seen[e];
        seen[e] = after_reset;
      } else if (mode == AutoReset::NextStep) {
        resets[e] = true;
      }
    }
  }
  CommitStatus append() {
    const std::vector<AnyValue> values{now_of(line.action, actions), now_of(line.reward, rewards),
                                       next_of(line.id, seen)};
    const std::vector<AnyValue> last{now_of(line.id, finals)};
    const bool apart = mode == AutoReset::SameStep;
    return writers.append(ends, values, apart ? std::span(last) : std::span<const AnyValue>());
  }

  AutoReset mode;
  NumberedBuffer line;
  VectorWriter writers;
  std::vector<std::uint64_t> seen;
  std::vector<std::uint64_t> actions;
  std::vector<std::uint64_t> finals;
  std::vector<float> rewards = std::vector<float>(kEnvironments, 0.0F);
  std::vector<End> ends;
  bool resets[kEnvironments] = {};
};

class AutoResets : public testing::TestWithParam<AutoReset> {};

TEST_P(AutoResets, MakeWholeEpisodesOfWhatTheSimulatorShows) {
  Simulators world(GetParam());
  world.writers.begin(world.first());
  Rng rng(3);
  std::size_t steps = 0;
  for (int t = 0; t < 200; ++t) {
    std::vector<End> ends;
    for (std::size_t e = 0; e < kEnvironments; ++e) {
      ends.push_back(rng.chance(0.2) ? static_cast<End>(rng.between(1, 2)) : End::Continue);
      EXPECT_EQ(world.writers.resetting(e), world.resets[e]);
      steps += world.resets[e] ? 0 : 1;
    }
    world.step(ends);
    ASSERT_EQ(world.append(), CommitStatus::Committed);
    if (GetParam() == AutoReset::Disabled) {
      for (std::size_t e = 0; e < kEnvironments; ++e) {
        EXPECT_EQ(world.writers.in_episode(e), ends[e] == End::Continue);
        if (ends[e] != End::Continue) {
          world.seen[e] = first_of_next_episode(world.seen[e]);
        }
      }
      world.writers.begin(world.first());
    }
  }
  EXPECT_EQ(world.line.replay.stats().committed_steps, steps);
  Sampler sampler = world.line.replay.sampler();
  const SampleResult drawn = require_batch(sampler.sample(4 * steps));
  const Batch& batch = *drawn;
  std::size_t ended = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::uint64_t now = batch.now(world.line.id)[i];
    ASSERT_EQ(batch.positions()[i], now % 100)
        << "episodes begin with the observation after a reset";
    ASSERT_EQ(batch.next(world.line.id)[i], now + 1) << "the final observation, not the reset";
    ASSERT_EQ(batch.now(world.line.action)[i], now);
    ended += batch.discounts()[i] == 0.0F ? 1U : 0U;
  }
  EXPECT_GT(ended, 0U);
}

std::string name_of(const testing::TestParamInfo<AutoReset>& info) {
  constexpr const char* kNames[] = {"SameStep", "NextStep", "Disabled"};
  return kNames[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Modes, AutoResets,
                         testing::Values(AutoReset::SameStep, AutoReset::NextStep,
                                         AutoReset::Disabled),
                         name_of);

/// The queue of 4 holds the writer after some environments' steps; the repeated call appends the
/// others.
TEST_P(AutoResets, RepeatedTakeEveryStepOnce) {
  Simulators world(GetParam(), SmallOptions{.capacity_steps = 2000,
                                            .max_times_sampled = 1,
                                            .episode_index = true,
                                            .rate_limiter = Queue{.size = 4}});
  Sampler sampler = world.line.replay.sampler();
  world.writers.begin(world.first());
  std::map<std::uint64_t, std::uint64_t> rows;
  const auto drain = [&] {
    while (const SampleResult batch = sampler.sample(1, kNoWait)) {
      rows.emplace(batch->now(world.line.id)[0], batch->next(world.line.id)[0]);
    }
  };
  const std::vector<End> wanted{End::Terminated, End::Continue, End::Truncated};
  std::size_t steps = 0;
  bool repeated = false;
  for (int t = 0; t < 8; ++t) {
    for (std::size_t e = 0; e < kEnvironments; ++e) {
      steps += world.resets[e] ? 0 : 1;
    }
    world.step(wanted);
    while (world.append() != CommitStatus::Committed) {
      repeated = true;
      drain();
    }
    if (GetParam() == AutoReset::Disabled) {
      for (const std::size_t e : {0U, 2U}) {
        world.seen[e] = first_of_next_episode(world.seen[e]);
      }
      world.writers.begin(world.first());
    }
  }
  drain();
  EXPECT_TRUE(repeated);
  EXPECT_EQ(world.line.replay.stats().committed_steps, steps);
  EXPECT_EQ(rows.size(), steps);
  EXPECT_TRUE(std::ranges::all_of(rows, [](auto row) { return row.second == row.first + 1; }));
}

TEST_P(AutoResets, CutAnEpisodeWithinWhichTheSimulatorIsReset) {
  Simulators world(GetParam());
  world.writers.begin(world.first());
  world.step(std::vector(kEnvironments, End::Continue));
  ASSERT_EQ(world.append(), CommitStatus::Committed);
  const std::size_t one[] = {1};
  world.writers.choose(one);
  const std::uint64_t first[] = {10'100};
  world.writers.begin(std::vector<AnyValue>{now_of(world.line.id, first)});
  world.writers.choose_all();
  if (GetParam() == AutoReset::Disabled) {
    EXPECT_EQ(world.writers[1].episode_steps(), 1U);
    return;
  }
  EXPECT_TRUE(world.writers.in_episode(1) && !world.writers.resetting(1));
  EXPECT_EQ(world.writers[1].episode_steps(), 0U);
  EXPECT_EQ(world.writers[0].episode_steps(), 1U);
  world.seen[1] = first[0];
  world.step(std::vector(kEnvironments, End::Continue));
  ASSERT_EQ(world.append(), CommitStatus::Committed);
  Sampler sampler = world.line.replay.sampler();
  const SampleResult drawn = require_batch(sampler.sample(100));
  std::set<std::uint64_t> now;
  for (std::size_t i = 0; i < drawn->size(); ++i) {
    now.insert(drawn->now(world.line.id)[i]);
    EXPECT_EQ(drawn->next(world.line.id)[i], drawn->now(world.line.id)[i] + 1);
    EXPECT_NE(drawn->discounts()[i], 0.0F) << "the episode was cut, not terminated";
  }
  EXPECT_EQ(now, (std::set<std::uint64_t>{0, 1, 10'000, 10'100, 20'000, 20'001}));
}

/// After a commit that ends an episode the environment's next episode has no steps, and neither has
/// it after `begin`. A commit after `begin` must still not be taken for a repeated one.
TEST(AutoReset, ThatIsBegunAnewRepeatsNoCommit) {
  Simulators world(AutoReset::SameStep,
                   SmallOptions{.max_times_sampled = 1, .rate_limiter = Queue{.size = 1}});
  Sampler sampler = world.line.replay.sampler();
  world.writers.begin(world.first());
  world.step(std::vector{End::Terminated, End::Continue, End::Continue});
  ASSERT_EQ(world.append(), CommitStatus::TimedOut);
  for (std::uint64_t& seen : world.seen) {
    seen = first_of_next_episode(seen);
  }
  world.writers.begin(world.first());
  world.step(std::vector(kEnvironments, End::Continue));
  while (world.append() != CommitStatus::Committed) {
    ASSERT_TRUE(sampler.sample(1, kNoWait));
  }
  EXPECT_EQ(world.line.replay.stats().committed_steps, 1 + kEnvironments);
}

TEST(AutoReset, OfNextStepTakesNoPrioritiesOfAReset) {
  Simulators world(AutoReset::NextStep);
  world.writers.begin(world.first());
  world.step(std::vector{End::Terminated, End::Continue, End::Continue});
  ASSERT_EQ(world.append(), CommitStatus::Committed);
  const std::vector<End> go_on(kEnvironments, End::Continue);
  EXPECT_EQ(world.writers.completing(go_on), 2U);
  EXPECT_EQ(world.writers.completing(go_on, std::array{false, false, false}), 3U);
}

TEST(AutoReset, AwaitsTheResetsThatASimulatorWasToldOf) {
  Simulators world(AutoReset::NextStep);
  world.writers.begin(world.first());
  world.step(std::vector(kEnvironments, End::Continue));
  ASSERT_EQ(world.append(), CommitStatus::Committed);
  const std::size_t one[] = {1};
  world.writers.choose(one);
  world.writers.await_resets();
  world.writers.choose_all();
  EXPECT_TRUE(world.writers.resetting(1) && !world.writers.in_episode(1));
  EXPECT_TRUE(!world.writers.resetting(0) && world.writers.in_episode(0));
  world.resets[1] = true;
  world.step(std::vector(kEnvironments, End::Continue));
  ASSERT_EQ(world.append(), CommitStatus::Committed);
  EXPECT_TRUE(world.writers.in_episode(1) && !world.writers.resetting(1));
  EXPECT_EQ(world.writers[1].episode_steps(), 0U);
  EXPECT_EQ(world.writers[0].episode_steps(), 2U);
}

TEST(AutoReset, AnEpisodeThatIsBegunByHandIsNoReset) {
  Simulators world(AutoReset::NextStep);
  world.writers.begin(world.first());
  world.step(std::vector(kEnvironments, End::Terminated));
  ASSERT_EQ(world.append(), CommitStatus::Committed);
  world.writers[2].begin_episode();
  world.writers[2].now(world.line.id) = 20'100;
  EXPECT_TRUE(world.writers.resetting(1));
  EXPECT_FALSE(world.writers.resetting(2));
}

TEST(AutoReset, RefusesWhatItsModeHasNot) {
  Simulators same(AutoReset::SameStep);
  same.writers.begin(same.first());
  same.step(std::vector{End::Terminated, End::Continue, End::Continue});
  const std::vector<AnyValue> values{now_of(same.line.action, same.actions),
                                     now_of(same.line.reward, same.rewards),
                                     next_of(same.line.id, same.seen)};
  expect_refusal([&] { (void)same.writers.append(same.ends, values); },
                 {"VectorWriter::append", "missing", "SameStep"});
  std::vector<AnyValue> now = values;
  now[2].next = false;
  expect_refusal([&] { (void)same.writers.append(same.ends, now); }, {"not given as next"});
  expect_refusal([&] { same.writers.await_resets(); }, {"NextStep"});
  expect_refusal([&] { same.writers.begin(values); }, {"no observation"});
  EXPECT_EQ(same.line.replay.stats().committed_steps, 0U);
  Simulators next(AutoReset::NextStep);
  next.writers.begin(next.first());
  next.step(std::vector(kEnvironments, End::Continue));
  // In this mode `append` passes final observations, which the writers' own mode does not allow.
  next.mode = AutoReset::SameStep;
  expect_refusal([&] { (void)next.append(); }, {"SameStep"});
}

TEST(AutoReset, BeginsWithAllObservationsAndANextStepNeedsOne) {
  Schema schema;
  const auto eye = schema.observation<float>("eye");
  const auto ear = schema.observation<float>("ear");
  ReplayBuffer replay(schema, SmallOptions{});
  VectorWriter writers(replay, 1, {}, AutoReset::NextStep);
  writers.await_resets();
  const float value = 0.0F;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&value, 1));
  const std::vector<AnyValue> both{now_of(eye, bytes), now_of(ear, bytes)};
  expect_refusal([&] { writers.begin(std::span(both).first(1)); },
                 {"VectorWriter::begin", "field 1", "missing"});
  EXPECT_TRUE(writers.resetting(0));
  writers.begin(both);
  EXPECT_TRUE(writers.in_episode(0) && !writers.resetting(0));
  Schema blind;
  blind.reward("reward");
  ReplayBuffer bandit(blind, SmallOptions{});
  expect_refusal([&] { (void)VectorWriter(bandit, 1, {}, AutoReset::NextStep); },
                 {"VectorWriter", "NextStep", "observations"});
}

TEST(AutoReset, WithoutFirstObservationsThereIsNoStep) {
  Simulators world(AutoReset::Disabled);
  world.step(std::vector(kEnvironments, End::Continue));
  expect_refusal<std::logic_error>([&] { (void)world.append(); }, {"'id'", "unwritten"});
  EXPECT_EQ(world.line.replay.stats().committed_steps, 0U);
}

}  // namespace
}  // namespace reprise::test
