#include "testing/fixtures/wrapped_selector.hpp"
#include "testing/laws/own_selectors.hpp"
#include "testing/test.hpp"

/// Selectors that use no class of the library, compared with library selectors that behave the
/// same.
namespace reprise::test {
namespace {

Options options_with(const Selector& selector) {
  return {.capacity_steps = 200,
          .selectors = {selector},
          .rate_limiter = Unlimited{},
          .chunk_steps = 12,
          .shards = 3,
          .key_tag = 1};
}

/// A selector whose weights are invalid: below 0, infinite or NaN.
struct CustomNonsense {
  struct Rule final : SelectorRule {
    void weigh(std::span<const float> priorities, std::span<float> weights) const noexcept final {
      std::ranges::transform(priorities, weights.begin(), [](float priority) {
        return priority == 1.0F   ? -1.0F
               : priority == 2.0F ? std::numeric_limits<float>::quiet_NaN()
               : priority == 3.0F ? std::numeric_limits<float>::infinity()
                                  : priority;
      });
    }
  };
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const {
    return std::make_unique<Rule>();
  }
};

TEST(OwnSelector, ThatGivesNonsenseForWeightsLeavesSumsThatAreFiniteAndProbabilitiesThatAddUp) {
  NumberedBuffer line(options_with(CustomNonsense{}));
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(line.append(i, 4.0F), CommitStatus::Committed);
  }
  const auto keys = line.keys();
  ASSERT_GE(keys.size(), 6U);
  const auto key = [&](std::size_t i) {
    return std::next(keys.begin(), static_cast<long>(i))->second;
  };
  // The library checks only the weight of a call's highest priority, so this call is not refused.
  const std::vector<ItemKey> changed{key(0), key(1), key(2), key(3)};
  const std::vector<float> priorities{1.0F, 2.0F, 3.0F, 4.0F};
  EXPECT_EQ(line.replay.update_priorities(changed, priorities).applied, 4U);
  double sum = 0.0;
  for (const auto& [number, probability] : line.probabilities()) {
    EXPECT_TRUE(std::isfinite(probability) && probability > 0.0) << number;
    sum += probability;
  }
  EXPECT_NEAR(sum, 1.0, 1e-6);
  for (const float refused : {1.0F, 2.0F, 3.0F}) {
    const std::initializer_list<std::string_view> named = {"priorities[0] is",
                                                           "a finite weight of at least 0"};
    expect_refusal([&] { line.append(100, refused); }, named);
    expect_refusal([&] { line.replay.update_priorities({&changed[0], 1}, {&refused, 1}); }, named);
  }
}

TEST(OwnSelector, WithoutAnExponentHasNoneToSet) {
  NumberedBuffer line(options_with(CustomHighest{}));
  expect_refusal([&] { line.replay.selector().set_alpha(0.5F); }, {"set_alpha", "selector is 0"});
  expect_refusal([&] { line.replay.selector().decay(0.5F); }, {"decay", "selector is 0"});
  NumberedBuffer with(options_with(CustomPower{}));
  for (const float alpha : {-1.0F, 9.0F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_refusal([&] { with.replay.selector().set_alpha(alpha); }, {"alpha is", "0 to 8"});
  }
}

/// The function that the user's selector lacks, of those that `SelectorHandle::set_alpha` needs.
enum class Without { RuleSet, RuleAlpha, ShardSet };

/// Draws by weight. Its exponent is 1 and cannot be changed, because a function is missing.
template <Without kWithout>
struct CustomRigid {
  struct Rule final : SelectorRule {
    std::atomic<float> exponent = 1.0F;
    void weigh(std::span<const float> priorities, std::span<float> weights) const noexcept final {
      std::ranges::transform(priorities, weights.begin(),
                             [this](float priority) { return exponent == 1.0F ? priority : 1.0F; });
    }
    [[nodiscard]] std::optional<float> alpha() const noexcept final {
      return kWithout == Without::RuleAlpha ? 1.0F : exponent.load();
    }
    bool set_alpha(float alpha) noexcept final {
      if (kWithout == Without::RuleSet) {
        return SelectorRule::set_alpha(alpha);
      }
      exponent = alpha;
      return true;
    }
    [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(
        std::size_t leaves) const final {
      auto whole = SelectorRule::make_shard_selector(leaves);
      return kWithout != Without::ShardSet ? std::move(whole)
                                           : std::make_unique<WrappedSelector>(std::move(whole));
    }
  };
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const {
    return std::make_unique<Rule>();
  }
};

TEST(OwnSelector, ThatSetsItsExponentOnlyInPartIsRefusedAndUnchanged) {
  for (const Selector& selector :
       {Selector(CustomRigid<Without::RuleSet>{}), Selector(CustomRigid<Without::RuleAlpha>{}),
        Selector(CustomRigid<Without::ShardSet>{})}) {
    NumberedBuffer line(options_with(selector));
    for (std::uint64_t i = 0; i < 40; ++i) {
      line.append(i, static_cast<float>(i + 1));
    }
    const auto before = line.probabilities();
    expect_refusal([&] { line.replay.selector().set_alpha(0.5F); },
                   {"set_alpha", "alpha is 0.5", "selector 0"});
    EXPECT_EQ(line.replay.selector().alpha(), 1.0F);
    EXPECT_EQ(line.probabilities(), before);
    const ItemKey key = line.keys().at(0);
    const float four = 4.0F;
    line.replay.update_priorities({&key, 1}, {&four, 1});
    const auto after = line.probabilities();
    EXPECT_NEAR(after.at(0), after.at(3), 1e-9);
  }
}

}  // namespace
}  // namespace reprise::test
