// Fields whose type is known only at run time: they give the same bytes as typed handles, and
// misuse throws where typed handles do not compile.
#include "testing/fixtures/any_values.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr std::array<std::size_t, 2> kShape{3, 2};

struct World {
  Schema schema;
  Observation<std::int16_t> seen = schema.observation<std::int16_t>("seen", kShape);
  ScalarColumn<double> action = schema.column<double>("action");
  Reward reward = schema.reward("reward");
};

using Frame = std::array<std::int16_t, 6>;

Frame frame(int step) {
  Frame frame{};
  frame.fill(static_cast<std::int16_t>(step));
  return frame;
}

TEST(AnyField, IsDeclaredAsTypedFieldsAre) {
  Schema declared;
  const AnyField seen = declared.declare("seen", Role::Observation, DType::I16, kShape);
  declared.declare("action", Role::Column, DType::F64);
  declared.declare("reward", Role::Reward, DType::F32);
  const World typed;
  EXPECT_EQ(declared, typed.schema);
  EXPECT_EQ(seen.index(), typed.seen.index());
  EXPECT_EQ(seen.signature(), AnyField(typed.seen).signature());
  EXPECT_EQ(seen.dtype(), DType::I16);
  EXPECT_EQ(seen.role(), Role::Observation);
  EXPECT_EQ(declared.find("action")->signature(), AnyField(typed.action).signature());
  EXPECT_EQ(declared.find("nobody"), std::nullopt);
}

TEST(AnyField, RefusesRewardsAndDiscountsThatAreNoScalarFloats) {
  Schema schema;
  for (const Role role : {Role::Reward, Role::Discount}) {
    expect_refusal([&] { schema.declare("r", role, DType::F64); }, {"no scalar float"});
    expect_refusal([&] { schema.declare("r", role, DType::F32, kShape); }, {"no scalar float"});
  }
  EXPECT_TRUE(schema.fields().empty());
}

TEST(AnyField, ThrowsForWhatTypedFieldsDoNotCompile) {
  World world;
  ReplayBuffer replay(world.schema, {.capacity_steps = 100});
  const AnyField seen(world.seen);
  const AnyField action(world.action);
  Writer writer = replay.writer();
  expect_refusal<std::logic_error>([&] { (void)writer.now(seen); }, {"begin_episode"});
  writer.begin_episode();
  expect_refusal([&] { (void)writer.next(action); }, {"field 'action' is a scalar f64 column"});
  Schema other;
  const AnyField foreign = other.declare("other", Role::Column, DType::U8);
  expect_refusal([&] { (void)writer.now(foreign); }, {"another schema"});
  const Batch batch = replay.make_batch(1);
  expect_refusal([&] { (void)batch.next(action); }, {"allowed: observations"});
  expect_refusal([&] { (void)batch.returns(seen); }, {"allowed: rewards"});
  expect_refusal([&] { (void)batch.now(foreign); }, {"another schema"});
  expect_refusal([&] { (void)batch.shape(foreign); }, {"another schema"});
}

TEST(AnyField, MakesLooseTransitions) {
  World world;
  ReplayBuffer replay(world.schema, {.capacity_steps = 100});
  Writer writer = replay.writer();
  const auto add = [&](int from, int to, std::size_t bytes = sizeof(Frame)) {
    const Frame now = frame(from);
    const Frame next = frame(to);
    const double action = 0.5 * from;
    const float reward = 1.0F;
    const std::vector<AnyValue> values{
        now_of(world.seen, std::as_bytes(std::span(now)).first(bytes)), next_of(world.seen, next),
        now_of(world.action, std::span(&action, 1)), now_of(world.reward, std::span(&reward, 1))};
    return writer.add_transition(End::Continue, values);
  };
  EXPECT_EQ(add(0, 1), CommitStatus::Committed);
  const std::uint64_t episode = writer.episode_id();
  EXPECT_EQ(add(1, 2), CommitStatus::Committed);
  EXPECT_EQ(writer.episode_id(), episode);
  EXPECT_EQ(add(5, 6), CommitStatus::Committed);
  EXPECT_NE(writer.episode_id(), episode);
  expect_refusal([&] { add(6, 7, 11); }, {"whole elements of 2"});
  expect_refusal([&] { add(6, 7, 10); }, {"allowed: 6"});
  const float reward = 1.0F;
  const AnyValue next_reward = next_of(world.reward, std::span(&reward, 1));
  expect_refusal([&] { writer.add_transition(End::Continue, std::span(&next_reward, 1)); },
                 {"'reward' is no observation", "allowed as next: observations"});
  const Frame now = frame(1);
  const AnyValue again = now_of(world.seen, now);
  expect_refusal([&] { writer.add_transition(End::Continue, std::vector<AnyValue>(200, again)); },
                 {"named twice"});
}

TEST(AnyField, FillsTheRowsOfAVectorOfEnvironments) {
  World world;
  ReplayBuffer replay(world.schema, {.capacity_steps = 100});
  VectorWriter writers(replay, 2);
  const std::array<Frame, 2> first{frame(10), frame(20)};
  const std::array<Frame, 2> second{frame(11), frame(21)};
  const std::array<double, 2> actions{1.0, 2.0};
  const std::array<float, 2> rewards{0.25F, 0.5F};
  const std::array ends{End::Continue, End::Terminated};
  writers.now(AnyField(world.seen), std::as_bytes(std::span(first)));
  writers.now(AnyField(world.action), std::as_bytes(std::span(actions)));
  writers.now(AnyField(world.reward), std::as_bytes(std::span(rewards)));
  writers.next(AnyField(world.seen), std::as_bytes(std::span(second)));
  EXPECT_EQ(writers.commit(ends), CommitStatus::Committed);
  // Only the second environment begins an episode.
  writers.now(AnyField(world.seen), std::as_bytes(std::span(first)));
  EXPECT_EQ(writers[0].now(world.seen)[0], 11);
  EXPECT_EQ(writers[1].now(world.seen)[0], 20);
  expect_refusal([&] { writers.now(AnyField(world.action), std::as_bytes(std::span(rewards))); },
                 {"allowed: 2 for 2 environments"});
  expect_refusal(
      [&] { writers.next(AnyField(world.seen), std::as_bytes(std::span(second)).first(3)); },
      {"whole elements"});
}

TEST(SetTimeout, HoldsFromTheNextCommitOn) {
  Schema schema;
  const auto value = schema.column<float>("value");
  ReplayBuffer replay(
      schema, {.capacity_steps = 100, .max_times_sampled = 1, .rate_limiter = Queue{.size = 1}});
  Writer writer = replay.writer();
  writer.set_timeout(0ns);
  writer.begin_episode();
  CommitStatus status = CommitStatus::Committed;
  for (int i = 0; i < 100 && status == CommitStatus::Committed; ++i) {
    writer.now(value) = 1.0F;
    status = writer.commit();
  }
  EXPECT_EQ(status, CommitStatus::TimedOut);
  expect_refusal([&] { writer.set_timeout(std::chrono::nanoseconds(-1)); }, {"-1 ns"});
}

}  // namespace
}  // namespace reprise::test
