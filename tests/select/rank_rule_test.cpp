#include <reprise/selectors/rank_based.hpp>

#include "select/rank_weights.hpp"
#include "storage/chunk_store.hpp"
#include "testing/statistics/ranks.hpp"
#include "testing/test.hpp"

namespace reprise::select {
namespace {

using test::rank_probabilities;
using test::Rng;
using test::total_variation;

/// A rule and its shard selectors, without locks: item i is leaf i / shards of shard i % shards.
/// `model` has the raw priority of every item, -1 if there is none.
class RankedShards {
 public:
  explicit RankedShards(std::size_t leaves, std::size_t shards = 3, float alpha = 0.7F)
      : rule(RankBased{.alpha = alpha}.make_selector_rule()),
        model(leaves, -1.0F),
        alpha_(static_cast<double>(alpha)) {
    for (std::size_t s = 0; s < shards; ++s) {
      selectors.push_back(rule->make_shard_selector(leaves / shards + 1));
    }
  }

  ShardSelector& selector_of(std::size_t item) { return *selectors[item % selectors.size()]; }
  std::uint32_t leaf_of(std::size_t item) const {
    return static_cast<std::uint32_t>(item / selectors.size());
  }

  void set(std::size_t item, float priority) {
    const std::uint32_t leaf = leaf_of(item);
    if (model[item] < 0.0F) {
      selector_of(item).insert({leaf, std::span(&priority, 1)}, {});
    } else {
      selector_of(item).update(std::span(&leaf, 1), std::span(&priority, 1));
    }
    model[item] = priority;
  }
  void erase(std::size_t item) {
    selector_of(item).erase(leaf_of(item), 1);
    model[item] = -1.0F;
  }
  void refresh() {
    rule->refresh([this](const std::function<void(ShardSelector&)>& visit) {
      for (const auto& selector : selectors) {
        visit(*selector);
      }
    });
  }

  /// The probability of each item, computed from the selectors' weights.
  std::vector<double> probabilities() {
    std::vector<double> all(model.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = selector_of(i).sum(leaf_of(i), 1);
    }
    const double total = std::accumulate(all.begin(), all.end(), 0.0);
    double totals = 0.0;
    for (const auto& selector : selectors) {
      totals += selector->summary().total;
    }
    EXPECT_NEAR(total, totals, 1e-9 * total);
    for (double& probability : all) {
      probability /= total;
    }
    return all;
  }
  /// The distance from the exact distribution; NaN without items.
  double error() { return total_variation(probabilities(), rank_probabilities(model, alpha_)); }

  std::unique_ptr<SelectorRule> rule;
  std::vector<std::unique_ptr<ShardSelector>> selectors;
  std::vector<float> model;

 private:
  double alpha_;
};

TEST(RankRule, NamesBadOptions) {
  const auto make = [](RankBased options) {
    return [options] { (void)options.make_selector_rule(); };
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  test::expect_refusal(make({.alpha = -0.5F}), {"RankBased", "alpha", "-0.5"});
  test::expect_refusal(make({.alpha = 9.0F}), {"alpha", "9", "0 to 8"});
  test::expect_refusal(make({.alpha = nan}), {"alpha", "nan"});
  test::expect_refusal(make({.initial_constant = -1.0F}), {"RankBased", "initial_constant", "-1"});
}

TEST(RankRule, FewItemsAreExactAfterEveryChange) {
  for (const float alpha : {0.0F, 0.7F, 1.0F, 8.0F}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(testing::Message() << "alpha " << alpha << ", seed " << seed);
      Rng rng(seed);
      RankedShards ranked(RankWeights::kExact, 3, alpha);
      for (int step = 0; step < 600; ++step) {
        const std::size_t item = rng.below(ranked.model.size());
        if (ranked.model[item] >= 0.0F && rng.chance(0.3)) {
          ranked.erase(item);
        } else {
          ranked.set(item, rng.chance(0.5) ? static_cast<float>(rng.below(6))
                                           : static_cast<float>(rng.unit()));
        }
        if (rng.chance(0.7)) {
          ranked.refresh();
          ASSERT_LT(std::isnan(ranked.error()) ? 0.0 : ranked.error(), 1e-6) << "step " << step;
        }
      }
    }
  }
}

/// A source of random priorities. The sources have very different distributions.
using Source = float (*)(Rng&);
struct Kind {
  const char* name;
  Source next;
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

float uniform(Rng& rng) {
  return static_cast<float>(rng.unit());
}
float geometric(Rng& rng) {
  return static_cast<float>(std::pow(10.0, 60.0 * rng.unit() - 30.0));
}
float half_at_zero(Rng& rng) {
  return rng.chance(0.5) ? 0.0F : uniform(rng);
}
float clipped(Rng& rng) {
  return std::min(1.0F, 1.5F * uniform(rng));
}
float few_values(Rng& rng) {
  return static_cast<float>(rng.below(40));
}
float nearly_equal(Rng& rng) {
  return 1.0F + 1e-4F * uniform(rng);
}

class RankRuleOf : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Priorities, RankRuleOf,
                         testing::Values(Kind{"uniform", uniform}, Kind{"geometric", geometric},
                                         Kind{"half at zero", half_at_zero},
                                         Kind{"clipped", clipped}, Kind{"few values", few_values},
                                         Kind{"nearly equal", nearly_equal}));

TEST_P(RankRuleOf, IsWithinLessThanAHundredthOfTheExactDistribution) {
  constexpr std::size_t kItems = 20000;
  for (const float alpha : {0.0F, 0.5F, 0.7F, 1.0F, 2.0F, 8.0F}) {
    SCOPED_TRACE(testing::Message() << "alpha " << alpha);
    Rng rng(7);
    RankedShards ranked(kItems, 4, alpha);
    for (std::size_t i = 0; i < kItems; ++i) {
      ranked.set(i, GetParam().next(rng));
    }
    ranked.refresh();
    EXPECT_LT(ranked.error(), 0.004) << "fresh";
    // In the steady state, learners change priorities, and new items get the highest one.
    for (int round = 0; round < 60; ++round) {
      for (int change = 0; change < 500; ++change) {
        ranked.set(rng.below(kItems), GetParam().next(rng));
      }
      for (int fresh = 0; fresh < 20; ++fresh) {
        const std::size_t item = rng.below(kItems);
        ranked.erase(item);
        ranked.set(
            item,
            std::max({ranked.selectors[0]->summary().max, ranked.selectors[1]->summary().max,
                      ranked.selectors[2]->summary().max, ranked.selectors[3]->summary().max}));
      }
      ranked.refresh();
      if (round % 10 == 9) {
        EXPECT_LT(ranked.error(), 0.006) << "round " << round;
      }
    }
  }
}

TEST(RankRule, FollowsPrioritiesThatMoveAllTogether) {
  constexpr std::size_t kItems = 20000;
  Rng rng(3);
  RankedShards ranked(kItems);
  float scale = 1.0F;
  for (int round = 0; round < 100; ++round, scale *= 0.9F) {
    for (std::size_t i = 0; i < (round == 0 ? kItems : 2000); ++i) {
      ranked.set(round == 0 ? i : rng.below(kItems), scale * uniform(rng));
    }
    ranked.refresh();
    ASSERT_LT(ranked.error(), 0.006) << "round " << round;
  }
}

TEST(RankRule, DrawsEveryLeafInProportionToItsWeight) {
  constexpr std::size_t kItems = 1000;
  constexpr std::size_t kTargets = 1 << 20;
  Rng rng(5);
  RankedShards ranked(kItems, 1);
  for (std::size_t i = 0; i < kItems; ++i) {
    ranked.set(i, few_values(rng) + (rng.chance(0.5) ? uniform(rng) : 0.0F));
  }
  ranked.refresh();
  const ShardSelector& selector = *ranked.selectors[0];
  const double total = selector.summary().total;
  std::vector<double> targets(kTargets);
  for (std::size_t i = 0; i < kTargets; ++i) {
    targets[i] = total * (static_cast<double>(i) + 0.5) / static_cast<double>(kTargets);
  }
  std::vector<std::uint32_t> leaves(kTargets);
  std::vector<float> weights(kTargets);
  selector.draw(targets, leaves, weights);
  std::vector<double> counts(kItems);
  for (std::size_t i = 0; i < kTargets; ++i) {
    ASSERT_EQ(double{weights[i]}, selector.sum(leaves[i], 1));
    ++counts[leaves[i]];
  }
  for (std::uint32_t leaf = 0; leaf < kItems; ++leaf) {
    const double expected = selector.sum(leaf, 1) / total * kTargets;
    ASSERT_NEAR(counts[leaf], expected, 1.001) << "evenly spaced targets miss by one at most";
  }
}

TEST(RankRule, SummariesNameRawPrioritiesAndTheLeastWeight) {
  RankedShards ranked(8, 1);
  ranked.set(0, 5.0F);
  ranked.set(1, 2.0F);
  ranked.set(2, 0.0F);
  ranked.refresh();
  const SelectorSummary summary = ranked.selectors[0]->summary();
  EXPECT_EQ(summary.max, 5.0F);
  EXPECT_EQ(summary.highest_seen, 5.0F);
  EXPECT_FLOAT_EQ(summary.min_positive, std::pow(3.0F, -0.7F));
  ranked.set(0, 1.0F);
  EXPECT_EQ(ranked.selectors[0]->summary().max, 2.0F);
  EXPECT_EQ(ranked.selectors[0]->summary().highest_seen, 5.0F);
}

}  // namespace
}  // namespace reprise::select
