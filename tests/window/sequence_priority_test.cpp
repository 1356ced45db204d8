#include "testing/fixtures/not_finite.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

using Floats = std::vector<float>;
using Lengths = std::vector<std::uint32_t>;

Floats priorities(const Floats& errors, const Lengths& lengths,
                  const SequencePriorityOptions& options = {}) {
  Floats result(lengths.size(), -1.0F);
  sequence_priorities(errors, lengths, result, options);
  return result;
}

TEST(SequencePriorities, MixTheLargestAndTheMeanOfAbsoluteErrors) {
  const Floats errors{1, -4, 1, 2, /**/ -3, 0, 0, 0};
  EXPECT_EQ(priorities(errors, {4, 4}, {.eta = 1.0F}), (Floats{4, 3}));
  EXPECT_EQ(priorities(errors, {4, 4}, {.eta = 0.0F}), (Floats{2, 0.75F}));
  EXPECT_EQ(priorities(errors, {4, 4}, {.eta = 0.5F}), (Floats{3, 1.875F}));
  const Floats by_default = priorities(errors, {4, 4});
  EXPECT_FLOAT_EQ(by_default[0], 0.9F * 4 + 0.1F * 2);
  EXPECT_FLOAT_EQ(by_default[1], 0.9F * 3 + 0.1F * 0.75F);
}

TEST(SequencePriorities, ReadNeitherPaddingNorBurnIn) {
  const Floats errors{kNaN, 2, 4, kNaN, /**/ kInfinity, 6, kNaN, kNaN, /**/ kNaN, 1, 2, 6};
  EXPECT_EQ(priorities(errors, {3, 2, 4}, {.eta = 0.5F, .burn_in = 1}), (Floats{3.5F, 6, 4.5F}));
}

TEST(SequencePriorities, AreZeroWhereNoStepCounts) {
  EXPECT_EQ(priorities({5, 5, 5, 5}, {2, 0}, {.burn_in = 2}), (Floats{0, 0}));
  EXPECT_EQ(priorities({5, 5, 5, 5}, {1, 0}), (Floats{5, 0}));
  EXPECT_EQ(priorities({}, {0, 0}), (Floats{0, 0}));
  EXPECT_EQ(priorities({}, {}), Floats{});
}

TEST(SequencePriorities, KeepWhatIsNoNumberForTheUpdateToRefuse) {
  for (const float eta : {0.0F, 0.9F, 1.0F}) {
    for (std::size_t place = 0; place < 3; ++place) {
      for (const float bad : {kNaN, kInfinity, -kInfinity}) {
        Floats errors{1, 2, 3, 4, 4, 4};
        errors[place] = bad;
        const Floats result = priorities(errors, {3, 3}, {.eta = eta});
        EXPECT_FALSE(std::isfinite(result[0])) << eta << " " << bad;
        EXPECT_FLOAT_EQ(result[1], 4.0F);
      }
    }
  }
}

TEST(SequencePriorities, OfTheLargestErrorsAreFinite) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const float eta : {0.0F, 0.3F, 0.9F, 1.0F}) {
    EXPECT_EQ(priorities({kLargest, -kLargest}, {2}, {.eta = eta}), Floats{kLargest});
  }
}

TEST(SequencePriorities, RefuseWhatDoesNotFitAndWriteNothing) {
  Floats result{-1, -1};
  const auto refused = [&](const Floats& errors, const Lengths& lengths,
                           const SequencePriorityOptions& options,
                           std::initializer_list<std::string_view> words) {
    expect_refusal([&] { sequence_priorities(errors, lengths, result, options); }, words);
    EXPECT_EQ(result, (Floats{-1, -1}));
  };
  const Floats errors{1, 2, 3, 4};
  for (const float eta : {-0.1F, 1.1F, kNaN}) {
    refused(errors, {2, 2}, {.eta = eta}, {"eta is ", testing::PrintToString(eta), "0 to 1"});
  }
  refused(errors, {2, 2}, {.burn_in = 3}, {"burn_in is 3", "0 to T = 2"});
  refused(errors, {2, 3}, {}, {"lengths[1] is 3", "0 to T = 2"});
  refused({1, 2, 3}, {2, 2}, {}, {"3 errors", "2 lengths"});
  refused(errors, {2}, {}, {"1 lengths", "2 priorities"});
  result.clear();
  expect_refusal([&] { sequence_priorities(errors, {}, result); }, {"4 errors", "0 lengths"});
}

TEST(SequencePriorities, ComeFromABatchAndGoBackIntoTheBuffer) {
  Schema schema;
  const auto state = schema.observation<float>("state");
  const auto error = schema.column<float>("error");
  ReplayBuffer replay(schema, {.capacity_steps = 100,
                               .window = Sequences{.length = 4, .period = 4, .burn_in = 2},
                               .selectors = {Proportional{.alpha = 1.0F, .epsilon = 0.0F}}});
  Writer writer = replay.writer();
  writer.begin_episode();
  writer.now(state) = 0.0F;
  for (int t = 0; t < 9; ++t) {  // The episode has two items, of 6 and of 5 steps.
    writer.now(error) = static_cast<float>(t);
    writer.next(state) = 0.0F;
    writer.commit(t == 8 ? End::Terminated : End::Continue);
  }
  Sampler sampler = replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(64));
  Floats result(batch->size());
  sequence_priorities(batch->now(error), batch->lengths(), result, {.eta = 0.5F, .burn_in = 2});
  EXPECT_EQ(replay.update_priorities(batch->keys(), result).applied, 64U);
  const SampleResult again = require_batch(sampler.sample(64));
  for (std::size_t i = 0; i < 64; ++i) {
    // The two items' errors are 2 to 5, and 6 to 8.
    const double weight = again->positions()[i] == 0 ? (5 + 3.5) / 2 : (8 + 7.0) / 2;
    EXPECT_NEAR(again->probabilities()[i], weight / (4.25 + 7.5), 1e-12);
  }
}

}  // namespace
}  // namespace reprise::test
