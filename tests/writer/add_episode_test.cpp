#include "testing/fixtures/any_values.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// An episode of numbered steps as arrays, to be compared with the same steps appended one by one.
struct Episode {
  Episode(std::uint64_t first, std::size_t count)
      : steps(count), numbers(count + 1), rewards(count, 1.0F) {
    std::iota(numbers.begin(), numbers.end(), first);
  }
  /// The values of these steps' fields, the same that `NumberedBuffer::append` writes.
  [[nodiscard]] std::vector<AnyValue> values(const NumberedBuffer& line) const {
    return {now_of(line.reward, rewards), now_of(line.id, numbers),
            now_of(line.action, std::span(numbers).first(steps))};
  }

  std::size_t steps;
  std::vector<std::uint64_t> numbers;
  std::vector<float> rewards;
};

Options options_of(const Window& window) {
  return SmallOptions{.window = window, .episode_index = true, .key_tag = 3};
}

/// The items of an episode as lists of numbers, which a failing test prints.
std::vector<std::vector<std::uint64_t>> items_of(NumberedBuffer& line, std::uint64_t episode) {
  std::vector<std::vector<std::uint64_t>> items;
  const Batch batch = line.replay.episodes().gather(episode, 0, 20);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch.lengths()[i] != 0) {
      items.push_back({batch.positions()[i], batch.lengths()[i], batch.keys()[i].bits,
                       batch.now(line.id)[i], batch.next(line.id)[i], batch.now(line.action)[i]});
    }
  }
  return items;
}

class AddEpisode : public testing::TestWithParam<End> {};

TEST_P(AddEpisode, IsItsStepsOneAfterTheOther) {
  NumberedBuffer many(options_of(Transitions{.n_step = 3}));
  NumberedBuffer single(options_of(Transitions{.n_step = 3}));
  for (const std::uint64_t first : {0U, 100U, 200U}) {
    const Episode episode(first, 10);
    std::size_t taken = 0;
    ASSERT_EQ(many.writer().add_episode(10, GetParam(), episode.values(many), taken),
              CommitStatus::Committed);
    EXPECT_EQ(taken, 10U);
    single.writer().begin_episode();
    single.writer().now(single.id) = first;
    for (std::uint64_t i = 0; i < 10; ++i) {
      single.append(first + i, i == 9 ? GetParam() : End::Continue);
    }
    EXPECT_EQ(many.writer().in_episode(), GetParam() == End::Continue);
    EXPECT_EQ(many.writer().episode_id(), single.writer().episode_id());
    EXPECT_EQ(items_of(many, many.writer().episode_id()),
              items_of(single, single.writer().episode_id()));
  }
  expect_steps_add_up(many.replay);
}

INSTANTIATE_TEST_SUITE_P(Ends, AddEpisode,
                         testing::Values(End::Continue, End::Terminated, End::Truncated));

/// Options with a queue of 4 items, which holds writers until items are drawn.
Options queue_of_4(InitialPriority initial) {
  return SmallOptions{
      .selectors = {Proportional{.alpha = 1.0F, .epsilon = 0.0F, .initial = initial}},
      .max_times_sampled = 1,
      .episode_index = true,
      .rate_limiter = Queue{.size = 4}};
}

constexpr float kGone = -1.0F;

/// Expects the first episode's items to have these priorities, or to be gone where it is kGone.
void expect_priorities(NumberedBuffer& line, const std::vector<float>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::optional<ItemKey> key = line.replay.episodes().find(0, i);
    ASSERT_EQ(key.has_value(), expected[i] != kGone) << i;
    float priority = 0.0F;
    if (key) {
      line.replay.selector().priorities({&*key, 1}, {&priority, 1});
      EXPECT_FLOAT_EQ(priority, expected[i]) << i;
    }
  }
}

TEST(AddEpisode, GoesOnBehindTheStepsThatWereTakenWithTheirPriorities) {
  NumberedBuffer line(queue_of_4(InitialPriority::FromCaller));
  Writer writer = line.replay.writer({.timeout = 0ns});
  const Episode episode(0, 6);
  const std::vector<float> priorities{1, 2, 3, 4, 5, 6};
  std::size_t taken = 0;
  const auto add = [&] {
    return writer.add_episode(6, End::Terminated, episode.values(line), taken, priorities);
  };
  ASSERT_EQ(add(), CommitStatus::TimedOut);
  EXPECT_EQ(taken, 4U);
  EXPECT_TRUE(writer.in_episode());
  expect_priorities(line, {1, 2, 3, 4});
  line.replay.clear();
  ASSERT_EQ(add(), CommitStatus::Committed);
  EXPECT_EQ(taken, 6U);
  EXPECT_FALSE(writer.in_episode());
  expect_priorities(line, {kGone, kGone, kGone, kGone, 5, 6});
}

TEST(AddEpisode, RefusesEverythingBeforeTheFirstStep) {
  Schema schema;
  const auto state = schema.observation<float>("state", {2});
  const auto reward = schema.reward("reward");
  const auto gamma = schema.discount("gamma");
  schema.require_finite();
  ReplayBuffer replay(schema, {.capacity_steps = 100, .window = Transitions{.n_step = 2}});
  Writer writer = replay.writer();
  std::vector<float> states(8, 1.0F);
  std::vector<float> rewards(3, 1.0F);
  std::vector<float> gammas(3, 1.0F);
  std::size_t taken = 0;
  std::vector<float> priorities;
  const auto values = [&] {
    return std::vector<AnyValue>{now_of(state, states), now_of(reward, rewards),
                                 now_of(gamma, gammas)};
  };
  const auto refuses = [&](std::initializer_list<std::string_view> words,
                           std::vector<AnyValue> given, std::size_t steps = 3,
                           End end = End::Truncated) {
    expect_refusal([&] { (void)writer.add_episode(steps, end, given, taken, priorities); }, words);
    EXPECT_FALSE(writer.in_episode());
  };
  refuses({"0 steps"}, values(), 0);
  refuses({"field 0 has 32 bytes", "3 rows"}, values(), 2);
  refuses({"end is 9"}, values(), 3, static_cast<End>(9));
  auto named = values();
  named[0].next = true;
  refuses({"field 0 is named as next"}, named);
  named = values();
  named.push_back(named[1]);
  refuses({"'reward' is named twice"}, named);
  named.erase(named.begin() + 2, named.end());
  refuses({"'gamma' is missing"}, named);
  states[7] = std::numeric_limits<float>::infinity();  // This is a value of the final observation.
  refuses({"'state'", "next step", "inf"}, values());
  states[7] = 1.0F;
  gammas[2] = 1.5F;
  refuses({"'gamma' is 1.5"}, values());
  gammas[2] = 1.0F;
  priorities = {1.0F, 1.0F};
  refuses({"2 priorities; this call decides 3 items"}, values());
  priorities = {1.0F, 1.0F, -1.0F};
  refuses({"priorities[2] is -1"}, values());
  priorities.clear();
  // `taken` is in the middle of the episode, which is not open here, or beyond its end.
  for (const std::size_t wrong : {2U, 4U}) {
    taken = wrong;
    refuses({"taken is"}, values());
  }
  taken = 0;
  EXPECT_EQ(replay.stats().committed_steps, 0U);
  ASSERT_EQ(writer.add_episode(3, End::Truncated, values(), taken), CommitStatus::Committed);
  EXPECT_EQ(replay.size(), 3U);
}

}  // namespace
}  // namespace reprise::test
