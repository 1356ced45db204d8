// Tests `set_alpha` and `decay` of a selector.
#include "testing/fixtures/not_finite.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// Items numbered from 0. The parameter is the number of shards.
class PriorityLife : public testing::TestWithParam<std::size_t> {
 protected:
  void make(const Proportional& selector) {
    line_.emplace(SmallOptions{.selectors = {selector}, .chunk_steps = 2, .shards = GetParam()});
    writer_.emplace(line_->replay.writer());
    next_ = 0;
  }
  void append(const std::vector<float>& priorities) {
    for (const float priority : priorities) {
      line_->append(*writer_, next_++, priority);
    }
  }
  void append() { line_->append(*writer_, next_++); }

  void expect_weights(const std::vector<double>& weights, double tolerance = 1e-6) {
    double total = 0.0;
    for (const double weight : weights) {
      total += weight;
    }
    (void)line_->replay.size();  // Ingests all steps, so that all can be drawn.
    const auto probabilities = line_->probabilities(1 << 16);
    for (std::uint64_t i = 0; i < weights.size(); ++i) {
      const auto drawn = probabilities.find(i);
      const double probability = drawn == probabilities.end() ? 0.0 : drawn->second;
      EXPECT_NEAR(probability, weights[i] / total, tolerance) << "item " << i;
    }
  }

  std::optional<NumberedBuffer> line_;
  std::optional<Writer> writer_;
  std::uint64_t next_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Shards, PriorityLife, testing::Values(1U, 3U));

TEST_P(PriorityLife, AlphaIsThatOfTheOptionsUntilItIsSet) {
  make({.alpha = 0.75F});
  EXPECT_EQ(line_->replay.selector().alpha(), 0.75F);
  line_->replay.selector().set_alpha(0.5F);
  EXPECT_EQ(line_->replay.selector().alpha(), 0.5F);
  EXPECT_EQ(line_->replay.options().selectors[0].target<Proportional>()->alpha, 0.75F);
  expect_refusal([&] { (void)line_->replay.selector(1).alpha(); }, {"selector is 1"});
}

TEST_P(PriorityLife, AlphaIsRefusedByNameAndValueAndNothingChanges) {
  make({.alpha = 0.5F, .epsilon = 0.0F});
  append({1.0F, 16.0F});
  for (const float alpha : {-0.1F, 8.5F, kNaN, std::numeric_limits<float>::infinity()}) {
    expect_refusal([&] { line_->replay.selector().set_alpha(alpha); },
                   {"alpha is " + testing::PrintToString(alpha), "allowed: 0 to 8"});
  }
  expect_refusal([&] { line_->replay.selector(1).set_alpha(1.0F); },
                 {"selector is 1", "Proportional"});
  expect_refusal([&] { line_->replay.selector(2).set_alpha(1.0F); }, {"selector is 2", "0 to 1"});
  expect_weights({1, 4});
}

TEST_P(PriorityLife, AnAlphaThatMakesEpsilonOrAConstantInfiniteIsRefused) {
  make({.alpha = 0.5F, .epsilon = 1e6F});
  expect_refusal([&] { line_->replay.selector().set_alpha(8.0F); }, {"alpha is 8", "epsilon"});
  make({.alpha = 0.5F, .initial = InitialPriority::Constant, .initial_constant = 1e10F});
  expect_refusal([&] { line_->replay.selector().set_alpha(8.0F); }, {"alpha is 8", "1e+10"});
}

TEST_P(PriorityLife, AnAlphaOfZeroIsFinal) {
  make({.alpha = 0.6F, .epsilon = 0.0F});
  append({4.0F, 0.0F, 0.5F});
  (void)line_->replay.size();
  line_->replay.selector().set_alpha(0.0F);
  append({7.0F});
  expect_weights({1, 0, 1, 1}, 0.0);
  for (const float alpha : {0.0F, 0.6F}) {
    expect_refusal([&] { line_->replay.selector().set_alpha(alpha); },
                   {"present alpha is 0", "above 0"});
  }
  expect_weights({1, 0, 1, 1}, 0.0);
}

TEST_P(PriorityLife, WeightsStayFiniteIfALargerAlphaFollowsTheCommit) {
  make({.alpha = 1.0F, .epsilon = 0.0F});
  append({1e30F, 1.0F, 1e30F});
  line_->replay.selector().set_alpha(8.0F);
  expect_weights({1, 0, 1});
  expect_refusal([&] { append({1e30F}); }, {"1e+30", "finite"});
}

TEST_P(PriorityLife, DecayIsRefusedByNameAndValueAndNothingChanges) {
  make(kRawProportional);
  append({1.0F});
  for (const float factor : {0.0F, -0.5F, 1.5F, kNaN}) {
    expect_refusal([&] { line_->replay.selector().decay(factor); },
                   {"factor is " + testing::PrintToString(factor), "at most 1"});
  }
  expect_refusal([&] { line_->replay.selector(1).decay(0.5F); }, {"selector is 1", "Proportional"});
  line_->replay.selector().decay(1.0F);
  append({1.0F});
  expect_weights({1, 1}, 0.0);
}

/// A user's selector whose rule accepts an exponent that its shard selectors, of `Fifo`, refuse.
struct HalfAlpha {
  struct Rule final : SelectorRule {
    [[nodiscard]] Law law() const noexcept final { return Law::InOrder; }
    [[nodiscard]] bool needs_item_numbers() const noexcept final { return true; }
    [[nodiscard]] std::optional<float> alpha() const noexcept final { return exponent; }
    bool set_alpha(float alpha) noexcept final {
      exponent = alpha;
      return true;
    }
    [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(
        std::size_t leaves) const final {
      return fifo->make_shard_selector(leaves);
    }
    std::atomic<float> exponent = 1.0F;
    std::unique_ptr<SelectorRule> fifo = Fifo{}.make_selector_rule();
  };
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const {
    return std::make_unique<Rule>();
  }
};

TEST(PriorityLifeOfOwn, AnAlphaThatShardSelectorsRefuseIsRefusedAndNothingChanges) {
  NumberedBuffer line(SmallOptions{.selectors = {HalfAlpha{}}});
  expect_refusal([&] { line.replay.selector().set_alpha(2.0F); }, {"alpha is 2"});
  EXPECT_EQ(line.replay.selector().alpha(), 1.0F);
}

}  // namespace
}  // namespace reprise::test
