#include "testing/fixtures/any_values.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

Schema schema_of_arrays() {
  Schema schema;
  schema.recurrent_state<float>("lstm", {3});
  schema.observation<float>("state", {2});
  schema.discount("discount");
  schema.column<std::int32_t>("action");
  schema.observation<std::uint8_t>("seen");
  schema.reward("reward");
  return schema;
}

/// Transitions as arrays. Most continue the transition before; some jump to other observations,
/// which begins an episode, and some end an episode.
struct Arrays {
  explicit Arrays(std::size_t n) : discount(n, 0.5F), reward(n), action(n), ends(n) {
    Rng rng(7);
    const auto draw = [&](auto& to, std::size_t count, std::uint64_t most) {
      for (std::size_t i = 0; i < count; ++i) {
        to.push_back(static_cast<typename std::decay_t<decltype(to)>::value_type>(rng.below(most)));
      }
    };
    draw(lstm, 3 * n, 100);
    draw(state, 2 * (n + 1), 100);
    draw(seen, n + 1, 100);
    next_state.assign(state.begin() + 2, state.end());
    next_seen.assign(seen.begin() + 1, seen.end());
    state.resize(2 * n);
    seen.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      action[i] = static_cast<std::int32_t>(i);
      reward[i] = static_cast<float>(rng.below(9));
      constexpr End kEnds[] = {End::Continue, End::Terminated, End::Truncated};
      ends[i] = rng.chance(0.1) ? kEnds[rng.between(1, 2)] : End::Continue;
      state[2 * i] += rng.chance(0.1) ? 1000.0F : 0.0F;
      seen[i] = static_cast<std::uint8_t>(seen[i] + (rng.chance(0.1) ? 100 : 0));
    }
  }

  /// Whether transition i begins with the observations with which the one before it ended.
  [[nodiscard]] bool continues(std::size_t i) const {
    return i != 0 && seen[i] == next_seen[i - 1] && state[2 * i] == next_state[2 * i - 2] &&
           state[2 * i + 1] == next_state[2 * i - 1];
  }
  /// Rows first to first + count - 1 of every field.
  [[nodiscard]] std::vector<AnyValue> rows(const Schema& schema, std::size_t first,
                                           std::size_t count) const {
    const auto of_rows = [&](const auto& array) {
      const std::size_t row = array.size() / ends.size();
      return std::span(array).subspan(first * row, count * row);
    };
    const auto field = [&](const char* name) { return schema.find(name).value(); };
    return {
        now_of(field("state"), of_rows(state)),       next_of(field("seen"), of_rows(next_seen)),
        now_of(field("reward"), of_rows(reward)),     now_of(field("lstm"), of_rows(lstm)),
        now_of(field("seen"), of_rows(seen)),         now_of(field("action"), of_rows(action)),
        now_of(field("discount"), of_rows(discount)), next_of(field("state"), of_rows(next_state))};
  }

  std::vector<float> lstm;
  std::vector<float> state;
  std::vector<std::uint8_t> seen;
  std::vector<float> discount;
  std::vector<float> reward;
  std::vector<std::int32_t> action;
  std::vector<End> ends;
  std::vector<float> next_state;
  std::vector<std::uint8_t> next_seen;
};

/// The bytes of all items, ordered by episode and position.
std::vector<std::byte> content(ReplayBuffer& replay, std::size_t episodes, std::size_t steps) {
  std::vector<std::byte> bytes;
  const auto put = [&](const auto& values) {
    const auto some = std::as_bytes(std::span(values));
    bytes.insert(bytes.end(), some.begin(), some.end());
  };
  for (std::uint64_t episode = 0; episode < episodes; ++episode) {
    const Batch batch = replay.episodes().gather(episode, 0, steps);
    put(batch.keys());
    put(batch.lengths());
    put(batch.discounts());
    for (const FieldSpec& field : replay.schema().fields()) {
      put(batch.now(replay.schema().find(field.name).value()));
    }
    put(batch.next(replay.schema().find("state").value()));
    put(batch.next(replay.schema().find("seen").value()));
  }
  return bytes;
}

Options options_with(const Window& window) {
  return SmallOptions{.capacity_steps = 700,
                      .window = window,
                      .episode_index = true,
                      .chunk_steps = 17,
                      .shards = 2,
                      .key_tag = 5};
}

/// Appends the same transitions in pieces of several sizes, one by one, and by a writer that begins
/// an episode at each jump. The transitions fill several chunks, some of which are evicted.
TEST(AddTransitions, TakesWhatAddTransitionAndAWriterTakeOneByOne) {
  const Arrays arrays(1000);
  const Schema schema = schema_of_arrays();
  const Sequences windows[] = {{.length = 4, .period = 2}, {.length = 3, .burn_in = 2}};
  for (const Sequences& window : windows) {
    ReplayBuffer of_many(schema, options_with(window));
    ReplayBuffer of_single(schema, options_with(window));
    ReplayBuffer of_by_hand(schema, options_with(window));
    Writer many = of_many.writer();
    Writer single = of_single.writer();
    Writer by_hand = of_by_hand.writer();
    std::size_t last = 0;
    for (const std::size_t piece : {1U, 2U, 30U, 0U, 200U, 767U}) {
      const std::size_t first = last;
      last += piece;
      std::size_t taken = 0;
      ASSERT_EQ(many.add_transitions(std::span(arrays.ends).subspan(first, piece),
                                     arrays.rows(schema, first, piece), taken),
                CommitStatus::Committed);
      EXPECT_EQ(taken, piece);
      for (std::size_t i = first; i < last; ++i) {
        const std::vector<AnyValue> rows = arrays.rows(schema, i, 1);
        ASSERT_EQ(single.add_transition(arrays.ends[i], rows), CommitStatus::Committed);
        if (!by_hand.in_episode() || !arrays.continues(i)) {
          by_hand.begin_episode();
        }
        for (const AnyValue& row : rows) {
          std::ranges::copy(row.bytes,
                            (row.next ? by_hand.next(row.field) : by_hand.now(row.field)).begin());
        }
        ASSERT_EQ(by_hand.commit(arrays.ends[i]), CommitStatus::Committed);
      }
      ASSERT_EQ(many.episode_id(), single.episode_id());
      ASSERT_EQ(many.episode_steps(), single.episode_steps());
      ASSERT_EQ(many.in_episode(), single.in_episode());
      ASSERT_EQ(of_many.size(), of_single.size())
          << "the last steps are seen when the call returns";
    }
    ASSERT_GT(many.episode_id(), 100U);
    const std::size_t episodes = many.episode_id() + 1;
    const auto items = content(of_many, episodes, 40);
    EXPECT_EQ(items, content(of_single, episodes, 40));
    EXPECT_EQ(items, content(of_by_hand, episodes, 40));
    expect_steps_add_up(of_many);
  }
}

/// A buffer, and 10 transitions between consecutive numbers.
class NumberedTransitions : public testing::Test {
 protected:
  static constexpr std::size_t kCount = 10;
  NumberedTransitions() : ends_(kCount, End::Continue) {
    for (std::size_t i = 0; i <= kCount; ++i) {
      numbers_.push_back(i);
    }
  }
  [[nodiscard]] std::vector<AnyValue> values() const {
    const std::span now = std::span(numbers_).first(kCount);
    return {now_of(line_.id, now), now_of(line_.action, now), now_of(line_.reward, rewards_),
            next_of(line_.id, std::span(numbers_).subspan(1))};
  }
  /// Expects the buffer to hold exactly steps `first` to `last` - 1 of its first episode.
  void expect_only(std::uint64_t first, std::uint64_t last) {
    EXPECT_EQ(line_.replay.size(), last - first);
    const Batch batch = line_.replay.episodes().gather(0, 0, kCount);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(batch.lengths()[i], first <= i && i < last ? 1U : 0U);
      EXPECT_TRUE(batch.lengths()[i] == 0 || batch.now(line_.id)[i] == i);
    }
  }
  static Options options() {
    return SmallOptions{
        .max_times_sampled = 1, .episode_index = true, .rate_limiter = Queue{.size = 4}};
  }

  NumberedBuffer line_{options()};
  std::vector<std::uint64_t> numbers_;
  std::vector<float> rewards_ = std::vector<float>(kCount, 1.0F);
  std::vector<End> ends_;
};

TEST_F(NumberedTransitions, GoOnBehindThoseThatWereTaken) {
  Writer writer = line_.replay.writer({.timeout = 0ns});
  std::size_t taken = 0;
  ASSERT_EQ(writer.add_transitions(ends_, values(), taken), CommitStatus::TimedOut);
  EXPECT_EQ(taken, 4U);
  EXPECT_EQ(line_.replay.size(), 4U);
  line_.replay.clear();
  ASSERT_EQ(writer.add_transitions(ends_, values(), taken), CommitStatus::TimedOut);
  EXPECT_EQ(taken, 8U);
  expect_only(4, 8);
  line_.replay.clear();
  ASSERT_EQ(writer.add_transitions(ends_, values(), taken), CommitStatus::Committed);
  EXPECT_EQ(taken, kCount);
  expect_only(8, 10);
  line_.replay.close();
  taken = 0;
  EXPECT_EQ(writer.add_transitions(ends_, values(), taken), CommitStatus::Closed);
  EXPECT_EQ(taken, 0U);
}

/// The writer holds back its newest step. Before it waits for samplers, it must let them see that
/// step.
TEST_F(NumberedTransitions, AreSeenWhileTheWriterWaitsForTheLimiter) {
  std::jthread learner([this] {
    Sampler sampler = line_.replay.sampler();
    while (sampler.sample(2)) {
      line_.replay.clear();
    }
  });
  Writer writer = line_.replay.writer();
  std::size_t taken = 0;
  EXPECT_EQ(writer.add_transitions(ends_, values(), taken), CommitStatus::Committed);
  EXPECT_EQ(taken, kCount);
  line_.replay.close();
}

TEST(AddTransitionsThatAreRefused, ChangeNothing) {
  constexpr std::size_t kCount = 20;
  const Schema schema = schema_of_arrays();
  ReplayBuffer replay(schema, options_with(Sequences{.length = 4, .period = 2}));
  Writer writer = replay.writer();
  Arrays arrays(kCount);
  std::size_t taken = 0;
  const auto refused = [&](std::size_t from, std::size_t rows,
                           std::initializer_list<std::string_view> words) {
    taken = from;
    expect_refusal(
        [&] { (void)writer.add_transitions(arrays.ends, arrays.rows(schema, 0, rows), taken); },
        words);
    EXPECT_EQ(taken, from);
    EXPECT_EQ(replay.stats().committed_steps, 0U);
  };
  refused(0, kCount - 1, {"field", "bytes; allowed: 20 rows"});
  refused(kCount + 1, kCount, {"taken is 21", "0 to 20"});
  arrays.discount[kCount - 1] = 2.0F;
  refused(0, kCount, {"'discount' is 2", "0 to 1"});
  arrays.discount[kCount - 1] = 1.0F;
  const End last = arrays.ends.back();
  arrays.ends.back() = static_cast<End>(3);
  refused(0, kCount, {"end is 3"});
  arrays.ends.back() = last;
  EXPECT_EQ(writer.add_transitions(arrays.ends, arrays.rows(schema, 0, kCount), taken = kCount),
            CommitStatus::Committed);
  EXPECT_EQ(replay.stats().committed_steps, 0U) << "all were taken before";
}

TEST(AddTransitionsThatAreRefused, ForWantOfPrioritiesAreThoseThatDecideItems) {
  Schema schema;
  const auto state = schema.observation<float>("state");
  ReplayBuffer replay(
      schema, SmallOptions{.window = Transitions{.n_step = 3},
                           .selectors = {Proportional{.initial = InitialPriority::FromCaller}}});
  Writer writer = replay.writer();
  const std::vector<float> states{1, 2, 3, 4, 5};
  const std::vector<End> ends(4, End::Continue);
  const AnyValue values[] = {now_of(state, std::span(states).first(4)),
                             next_of(state, std::span(states).subspan(1))};
  std::size_t taken = 0;
  expect_refusal([&] { (void)writer.add_transitions(ends, values, taken); }, {"FromCaller"});
  EXPECT_EQ(taken, 2U);
  EXPECT_EQ(writer.episode_steps(), 2U);
  EXPECT_TRUE(writer.in_episode());
}

TEST(AddTransitionsThatAreRefused, NameTheTransitionThatIsNotFinite) {
  Schema schema;
  const auto state = schema.observation<float>("state");
  schema.require_finite();
  ReplayBuffer replay(schema, SmallOptions{});
  Writer writer = replay.writer();
  const std::vector<float> states{1, 2, 3, std::nanf(""), 5};
  const std::vector<End> ends(4, End::Continue);
  const AnyValue values[] = {now_of(state, std::span(states).first(4)),
                             next_of(state, std::span(states).subspan(1))};
  std::size_t taken = 0;
  expect_refusal([&] { (void)writer.add_transitions(ends, values, taken); },
                 {"'state' of the current step is nan", "in transition 3"});
  EXPECT_EQ(taken, 0U);
  EXPECT_EQ(replay.stats().committed_steps, 0U);
}

}  // namespace
}  // namespace reprise::test
