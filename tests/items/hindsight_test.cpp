#include "goals.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// Counts the distances of the goals of step `step`. Steps 1 to 11 are an episode, in one chunk or
/// in several small chunks; 100 to 103 precede it, 200 to 203 follow it.
std::map<std::int32_t, int> distances_of(HindsightGoal goal, std::uint64_t step, int calls,
                                         std::uint32_t chunk_steps = 32) {
  NumberedBuffer line(options_of(chunk_steps < 16 ? 3 : 1, chunk_steps));
  Hindsight hindsight = line.replay.hindsight(line.id, {.goal = goal, .share = 1.0F, .seed = 5});
  line.append_many(100, 3);
  line.append(103, End::Terminated);
  line.append_many(1, 10);
  line.append(11, End::Truncated);
  line.append_many(200, 4);
  return count_distances(hindsight, line.keys().at(step), calls);
}

TEST(Hindsight, FutureGoalsAreAllLaterObservationsEquallyOften) {
  for (const std::uint32_t chunk_steps : {32U, 6U}) {
    const auto distances = [=](std::uint64_t step, int calls) {
      return distances_of(HindsightGoal::Future, step, calls, chunk_steps);
    };
    expect_uniform(distances(4, 20000), 1, 8);
    expect_uniform(distances(1, 20000), 1, 11);
    expect_uniform(distances(11, 100), 1, 1);
    expect_uniform(distances(200, 20000), 1, 4);
  }
}

TEST(Hindsight, FinalGoalsAreTheLastObservation) {
  for (const std::uint32_t chunk_steps : {32U, 6U}) {
    expect_uniform(distances_of(HindsightGoal::Final, 4, 100, chunk_steps), 8, 8);
    expect_uniform(distances_of(HindsightGoal::Final, 103, 100, chunk_steps), 1, 1);
  }
}

TEST(Hindsight, EpisodeGoalsAreAllOtherObservationsEquallyOften) {
  for (const std::uint32_t chunk_steps : {32U, 6U}) {
    const auto distances = [=](std::uint64_t step) {
      return distances_of(HindsightGoal::Episode, step, 20000, chunk_steps);
    };
    expect_uniform(distances(4), -3, 8);
    expect_uniform(distances(1), 0, 11);
    expect_uniform(distances(6), -5, 6);
    expect_uniform(distances(11), -10, 1);
  }
}

TEST(Hindsight, RelabelsTheShareOfItemsThatTheOptionsName) {
  NumberedBuffer line(options_of(2, 16));
  line.append_many(1, 50);
  const std::vector<ItemKey> keys(10000, line.keys().at(7));
  for (const float share : {0.0F, 0.25F, 0.8F, 1.0F}) {
    Hindsight hindsight = line.replay.hindsight(line.id, {.share = share});
    const double expected = 10000.0 * static_cast<double>(share);
    EXPECT_NEAR(static_cast<double>(relabel(hindsight, keys).relabelled), expected,
                5 * std::sqrt(expected * (1.0 - static_cast<double>(share))));
  }
}

TEST(Hindsight, EqualSeedsGiveEqualGoals) {
  NumberedBuffer line(options_of(2, 16));
  line.append_many(1, 50);
  std::vector<ItemKey> keys = line.key_list();
  Hindsight first = line.replay.hindsight(line.id, {.seed = 3});
  Hindsight same_seed = line.replay.hindsight(line.id, {.seed = 3});
  Hindsight other_seed = line.replay.hindsight(line.id, {.seed = 4});
  const Goals goals = relabel(first, keys);
  EXPECT_EQ(goals.goals, relabel(same_seed, keys).goals);
  EXPECT_NE(goals.goals, relabel(other_seed, keys).goals);
  EXPECT_NE(goals.goals, relabel(first, keys).goals);
}

TEST(Hindsight, RefusesFieldsSharesAndSpansThatDoNotFit) {
  NumberedBuffer line;
  line.append_many(1, 5);
  expect_refusal([&] { (void)line.replay.hindsight(AnyField(line.action)); },
                 {"field 'action' is a column", "observations"});
  expect_refusal([&] { (void)line.replay.hindsight(line.id, {.share = 1.5F}); },
                 {"HindsightOptions::share is 1.5", "0 to 1"});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_refusal([&] { (void)line.replay.hindsight(line.id, {.share = nan}); },
                 {"HindsightOptions::share is nan"});
  Schema other_schema;
  const auto deep = other_schema.observation<float>("deep");
  expect_refusal([&] { (void)line.replay.hindsight(deep); },
                 {"field 'id'", "the handle is of another schema"});
  NumberedBuffer three(SmallOptions{.window = Transitions{.n_step = 3}});
  expect_refusal([&] { (void)three.replay.hindsight(three.id); },
                 {"Transitions of n_step 3", "n_step 1"});

  Hindsight hindsight = line.replay.hindsight(line.id);
  const std::vector<ItemKey> keys = {line.keys().at(2), line.keys().at(3)};
  std::vector<std::uint64_t> goals(2, kUnchangedGoal);
  std::vector<std::int64_t> wrong(2);
  std::vector<std::int32_t> distances(2, kUnchangedDistance);
  const std::span<std::uint64_t> all(goals);
  expect_refusal([&] { hindsight.relabel(keys, std::span(wrong), std::span(distances)); },
                 {"goals are of another type", "scalar u64"});
  expect_refusal([&] { hindsight.relabel(keys, all.first(1), std::span(distances)); },
                 {"goals have 8 bytes", "2 keys * 8"});
  expect_refusal([&] { hindsight.relabel(keys, all, std::span(distances).first(1)); },
                 {"1 distances and 2 keys"});
  const std::vector<ItemKey> mixed = {
      keys[0], ItemKey::make(keys[1].slot(), keys[1].generation(), keys[1].tag() + 1)};
  expect_refusal([&] { hindsight.relabel(mixed, all, std::span(distances)); },
                 {"Hindsight::relabel: keys[1] has tag"});
  EXPECT_EQ(goals, std::vector(2, kUnchangedGoal));
  EXPECT_EQ(distances, std::vector(2, kUnchangedDistance));
}

}  // namespace
}  // namespace reprise::test
