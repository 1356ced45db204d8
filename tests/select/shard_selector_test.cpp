#include <reprise/selector.hpp>
#include <reprise/selectors/heaps.hpp>
#include <reprise/selectors/mixture.hpp>
#include <reprise/selectors/rank_based.hpp>
#include <reprise/selectors/recency.hpp>

#include "testing/fixtures/without_denormals.hpp"
#include "testing/test.hpp"

namespace reprise {
namespace {

/// A shard selector over a vector of weights, which overrides only the functions that it has to.
class MinimalSelector final : public ShardSelector {
 public:
  explicit MinimalSelector(std::vector<float> weights) : leaves(std::move(weights)) {}

  void insert(const ItemRun& /*run*/, const SelectorSummary& /*other_shards*/) noexcept override {}
  void erase(std::uint32_t /*first*/, std::size_t /*count*/) noexcept override {}
  [[nodiscard]] SelectorSummary summary() const noexcept override { return {}; }
  [[nodiscard]] double sum(std::uint32_t first, std::size_t count) const noexcept override {
    const auto run = std::span(leaves).subspan(first, count);
    return std::accumulate(run.begin(), run.end(), 0.0);
  }
  void draw(std::span<double> /*targets*/, std::span<std::uint32_t> /*drawn*/,
            std::span<float> /*weights*/) const noexcept override {}
  void update(std::span<const std::uint32_t> changed,
              std::span<const float> weights) noexcept override {
    ASSERT_EQ(changed.size(), weights.size());
    for (std::size_t i = 0; i < changed.size(); ++i) {
      leaves.at(changed[i]) = weights[i];
    }
  }

  std::vector<float> leaves;
};

/// More leaves than are hidden at a time. Every second one is hidden.
constexpr std::uint32_t kLeaves = 1'001;

std::vector<std::uint32_t> every_other() {
  std::vector<std::uint32_t> leaves;
  for (std::uint32_t leaf = 0; leaf < kLeaves; leaf += 2) {
    leaves.push_back(leaf);
  }
  return leaves;
}

TEST(ShardSelectorDefaults, AreAllPositiveOnlyIfNoLeafWeighsNothing) {
  const MinimalSelector selector({1.0F, 0.0F, 1e-40F, 3.0F});
  EXPECT_TRUE(selector.all_positive({}));
  EXPECT_TRUE(selector.all_positive(std::vector<std::uint32_t>{3, 0, 2}));
  EXPECT_FALSE(selector.all_positive(std::vector<std::uint32_t>{0, 1, 3}));
}

TEST(ShardSelectorDefaults, HideExactlyTheLeavesNamedAndShowThemAgain) {
  std::vector<float> weights(kLeaves);
  std::iota(weights.begin(), weights.end(), 1.0F);
  MinimalSelector selector(weights);
  const auto hidden = every_other();
  selector.hide(hidden);
  for (std::uint32_t leaf = 0; leaf < kLeaves; ++leaf) {
    EXPECT_EQ(selector.leaves[leaf], leaf % 2 == 0 ? 0.0F : weights[leaf]) << "leaf " << leaf;
  }
  std::vector<float> before(hidden.size());
  std::ranges::transform(hidden, before.begin(), [&](auto leaf) { return weights[leaf]; });
  selector.show(hidden, before);
  EXPECT_EQ(selector.leaves, weights);
}

/// Checkpoints of earlier versions have denormal weights.
TEST(ShardSelectorsOfPriorities, RestoreADenormalWeightAsTheSmallestNormalOne) {
  constexpr float kNormal = std::numeric_limits<float>::min();
  constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
  const std::vector<std::uint32_t> leaves{0, 1, 2};
  for (const Selector& selector :
       {Selector(Proportional{.alpha = 1.0F}), Selector(Mixture{.alpha = 1.0F}),
        Selector(RankBased{}), Selector(MaxHeap{}), Selector(MinHeap{})}) {
    for (const bool flushed : {false, true}) {
      const auto rule = selector.make_selector_rule();
      const auto loaded = rule->make_shard_selector(4);
      loaded->insert({0, std::vector(3, 0.0F)}, {});
      test::call_flushed(flushed, [&] {
        loaded->restore(leaves, std::vector{kDenormal, 0.0F, kNormal});
        loaded->set_memory({1.0, double{kDenormal}});
      });
      std::vector<float> stored(3);
      loaded->store(leaves, stored);
      // A heap stores the sum of a leaf, which is its priority.
      EXPECT_EQ(stored, (std::vector{kNormal, 0.0F, kNormal}));
      EXPECT_EQ(loaded->summary().highest_seen, kNormal);
    }
  }
}

TEST(ShardSelectorOfMixture, ThatHidesALeafTwiceShowsWhatItWeighed) {
  const auto rule = Mixture{.alpha = 1.0F}.make_selector_rule();
  const auto selector = rule->make_shard_selector(4);
  selector->insert({0, std::vector{1.0F, 5.0F, 2.0F}}, {});
  const std::vector<std::uint32_t> leaf{1};
  selector->hide(leaf);
  selector->hide(leaf);
  EXPECT_EQ(selector->sum(1, 1), 0.0);
  selector->show(leaf, std::vector{1.0F});
  EXPECT_EQ(selector->sum(1, 1), 5.0);
}

TEST(ShardSelectorOfMixture, DrawsAlikeWhereNothingHasWeight) {
  const auto rule = Mixture{.uniform = 0.0F, .alpha = 1.0F}.make_selector_rule();
  const auto selector = rule->make_shard_selector(4);
  selector->insert({0, std::vector(3, 0.0F)}, {});
  rule->refresh([&](const auto& call) { call(*selector); });
  EXPECT_NEAR(selector->summary().total, 1.0, 1e-6);
}

/// Items older than the age at which weights end are as likely as items of that age, so every item
/// can be drawn.
TEST(ShardSelectorOfRecency, GivesAWeightToItemsHoweverFarApartThatComeInOneRun) {
  const auto rule = Recency{.p = 0.1F}.make_selector_rule();
  const auto selector = rule->make_shard_selector(4);
  const std::uint64_t numbers[] = {0, 2000, 2001};
  selector->insert({0, std::vector(3, 1.0F), numbers}, {});
  EXPECT_TRUE(selector->all_positive(std::vector<std::uint32_t>{0, 1, 2}));
}

}  // namespace
}  // namespace reprise
