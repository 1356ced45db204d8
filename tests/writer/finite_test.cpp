#include "testing/fixtures/not_finite.hpp"
#include "testing/test.hpp"

// `Schema::require_finite` refuses observations and rewards that are not finite.

namespace reprise::test {
namespace {

struct Checked {
  explicit Checked(bool require_finite = true) {
    schema.require_finite(require_finite);
    replay.emplace(schema, SmallOptions{.max_writers = 2});
  }
  /// Writes a step in which all checked values are `value`.
  void write(Writer& writer, float value) const {
    if (!writer.in_episode()) {
      writer.begin_episode();
      std::ranges::fill(writer.now(narrow), value);
      writer.now(wide) = value;
      writer.now(whole) = 1;
    }
    std::ranges::fill(writer.next(narrow), value);
    writer.next(wide) = value;
    writer.next(whole) = 1;
    writer.now(action) = kNaN;
    writer.now(reward) = value;
  }

  Schema schema;
  Observation<float> narrow = schema.observation<float>("narrow", {5});
  ScalarObservation<double> wide = schema.observation<double>("wide");
  ScalarObservation<std::uint32_t> whole = schema.observation<std::uint32_t>("whole");
  ScalarColumn<float> action = schema.column<float>("action");
  Reward reward = schema.reward("reward");
  std::optional<ReplayBuffer> replay;
};

TEST(Finite, TakesEveryFiniteValueAndWhateverOtherFieldsHold) {
  Checked checked;
  EXPECT_TRUE(checked.replay->schema().requires_finite());
  Writer writer = checked.replay->writer();
  for (const float value : {0.0F, -0.0F, 1e-45F, -std::numeric_limits<float>::max()}) {
    checked.write(writer, value);
    EXPECT_EQ(writer.commit(), CommitStatus::Committed);
  }
  writer.next(checked.whole) = ~std::uint32_t{0};  // As a float, these bits are a NaN.
  std::ranges::fill(writer.next(checked.narrow), 1.0F);
  writer.next(checked.wide) = 1.0;
  writer.now(checked.action) = kNaN;
  writer.now(checked.reward) = 1.0F;
  EXPECT_EQ(writer.commit(End::Terminated), CommitStatus::Committed);
}

TEST(Finite, RefusesAStepNamingFieldPlaceAndValueAndKeepsItToBeMended) {
  Checked checked;
  Writer writer = checked.replay->writer();
  const auto refused = [&](std::initializer_list<std::string_view> words) {
    expect_refusal([&] { (void)writer.commit(); }, words);
  };
  checked.write(writer, 1.0F);
  writer.now(checked.narrow)[4] = kNaN;
  refused({"'narrow' of the current step is nan at element 4, in step 0 of episode", "finite"});
  writer.now(checked.narrow)[4] = 1.0F;
  writer.next(checked.narrow)[1] = -std::numeric_limits<float>::infinity();
  refused({"'narrow' of the next step is -inf at element 1"});
  writer.next(checked.narrow)[1] = 1.0F;
  EXPECT_EQ(writer.commit(), CommitStatus::Committed);

  checked.write(writer, 2.0F);
  writer.next(checked.wide) = kInfinity;
  refused({"'wide' of the next step is inf at element 0, in step 1"});
  writer.next(checked.wide) = 2.0;
  writer.now(checked.reward) = -kNaN;
  refused({"'reward' of the current step is", "nan"});
  writer.now(checked.reward) = 2.0F;
  EXPECT_EQ(checked.replay->stats().committed_steps, 1U);
  EXPECT_EQ(writer.commit(), CommitStatus::Committed);
  EXPECT_EQ(checked.replay->stats().committed_steps, 2U);
}

TEST(Finite, IsAskedOfTransitionsBeforeAnythingChanges) {
  Checked checked;
  Writer writer = checked.replay->writer();
  const auto add = [&](float first, float value) {
    const std::vector<float> from(5, first);
    const std::vector<float> to(5, value);
    return writer.add_transition(End::Continue, now(checked.narrow, from), now(checked.wide, 1.0),
                                 now(checked.whole, 1), now(checked.action, kNaN),
                                 now(checked.reward, 1.0F), next(checked.narrow, to),
                                 next(checked.wide, 1.0), next(checked.whole, 1));
  };
  EXPECT_EQ(add(0.0F, 1.0F), CommitStatus::Committed);
  const std::uint64_t episode = writer.episode_id();
  expect_refusal([&] { (void)add(7.0F, kNaN); }, {"'narrow' of the next"});
  expect_refusal([&] { (void)add(kNaN, 7.0F); }, {"'narrow' of the current"});
  EXPECT_EQ(add(1.0F, 2.0F), CommitStatus::Committed);
  EXPECT_EQ(writer.episode_id(), episode) << "the episode went on";
  EXPECT_EQ(writer.episode_steps(), 2U);
}

TEST(Finite, IsAskedOfEveryEnvironmentBeforeTheFirstCommits) {
  Checked checked;
  VectorWriter writers(*checked.replay, 2);
  std::vector<float> narrow(10, 1.0F);
  const std::vector<double> wide(2, 1.0);
  const std::vector<std::uint32_t> whole(2, 1);
  const std::vector<float> ones(2, 1.0F);
  const std::vector<End> ends(2, End::Continue);
  writers.now(checked.narrow, narrow);
  writers.now(checked.wide, wide);
  writers.now(checked.whole, whole);
  writers.now(checked.action, ones);
  writers.now(checked.reward, ones);
  writers.next(checked.wide, wide);
  writers.next(checked.whole, whole);
  narrow[7] = kNaN;
  writers.next(checked.narrow, narrow);
  expect_refusal([&] { (void)writers.commit(ends); },
                 {"'narrow' of the next step is nan at element 2"});
  EXPECT_EQ(checked.replay->stats().committed_steps, 0U);
  narrow[7] = 1.0F;
  writers.next(checked.narrow, narrow);
  EXPECT_EQ(writers.commit(ends), CommitStatus::Committed);
  EXPECT_EQ(checked.replay->stats().committed_steps, 2U);
}

TEST(Finite, IsAskedOfFloatsOf16Bits) {
  Schema schema;
  const auto half = schema.observation<Float16>("half", {2});
  const auto brain = schema.observation<BFloat16>("brain");
  schema.require_finite();
  ReplayBuffer replay(schema, SmallOptions{});
  Writer writer = replay.writer();
  writer.begin_episode();
  writer.now(half)[0] = writer.now(half)[1] = Float16{0xfbff};  // The lowest finite number.
  writer.now(brain) = BFloat16{0x7f7f};                         // The largest finite number.
  std::ranges::copy(writer.now(half), writer.next(half).begin());
  const auto refused = [&](std::initializer_list<std::string_view> words) {
    expect_refusal([&] { (void)writer.commit(); }, words);
  };
  for (const auto& [bits, name] : {std::pair(0x7c00, "inf"), {0xfc00, "-inf"}, {0xfc01, "nan"}}) {
    writer.next(brain) = BFloat16{0};
    writer.next(half)[1] = Float16{static_cast<std::uint16_t>(bits)};
    refused({"'half' of the next step is ", name, " at element 1"});
  }
  writer.next(half)[1] = Float16{};
  for (const auto& [bits, name] : {std::pair(0x7f80, "inf"), {0xff80, "-inf"}, {0x7fc0, "nan"}}) {
    writer.next(brain) = BFloat16{static_cast<std::uint16_t>(bits)};
    refused({"'brain' of the next step is ", name, " at element 0"});
  }
  writer.next(brain) = BFloat16{0x3f80};
  EXPECT_EQ(writer.commit(), CommitStatus::Committed);
}

TEST(Finite, IsOffUnlessAskedFor) {
  Checked unchecked(/*require_finite=*/false);
  Writer writer = unchecked.replay->writer();
  unchecked.write(writer, kNaN);
  EXPECT_EQ(writer.commit(), CommitStatus::Committed);
  EXPECT_EQ(unchecked.schema, Checked().schema) << "the fields are the same";
}

}  // namespace
}  // namespace reprise::test
