#include "select/tree_selector.hpp"

#include "storage/chunk_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace reprise::select {
namespace {

using storage::kInitialPriority;
using storage::kNotAStep;
using Floats = std::vector<float>;

constexpr SelectorSummary kNowhere{};

/// Weights are the priorities themselves.
WeightRule raw(InitialPriority initial = InitialPriority::MaximumInBuffer) {
  return WeightRule(
      Proportional{.alpha = 1.0F, .epsilon = 0.0F, .initial = initial, .initial_constant = 0.5F});
}

/// The weight of every leaf, found through the only way out: draws over the whole total. Needs
/// whole weights.
Floats weights_of(const TreeSelector& selector, std::size_t leaves) {
  Floats weights(leaves);
  const double total = selector.summary().total;
  std::vector<double> targets;
  for (double at = 0.25; at < total; at += 0.5) {
    targets.push_back(at);
  }
  std::vector<std::uint32_t> drawn(targets.size());
  Floats reported(targets.size());
  if (!targets.empty()) {
    selector.draw(targets, drawn, reported);
  }
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_GT(reported[i], 0.0F);
    weights[drawn[i]] += 0.5F;
  }
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_EQ(weights[drawn[i]], reported[i]) << "leaf " << drawn[i];
  }
  return weights;
}

TEST(TreeSelector, MarksOverwriteWhatTheRowsHeldBefore) {
  TreeSelector selector(WeightRule(Uniform{}), 4);
  selector.insert({0, Floats{1.0F, 1.0F, 1.0F, 1.0F}}, kNowhere);
  selector.insert({1, Floats{kNotAStep, kNotAStep}}, kNowhere);
  EXPECT_EQ(weights_of(selector, 4), (Floats{1, 0, 0, 1}));
}

TEST(TreeSelector, TheMaximumRunsAlongWithinOneRun) {
  TreeSelector selector(raw(), 6);
  selector.insert(
      {0, Floats{kInitialPriority, 4.0F, kInitialPriority, 2.0F, 7.0F, kInitialPriority}},
      kNowhere);
  EXPECT_EQ(weights_of(selector, 6), (Floats{1, 4, 4, 2, 7, 7}));
}

TEST(TreeSelector, TheMaximumRunsAlongAcrossLongRuns) {
  constexpr std::size_t kLeaves = 1500;
  Floats priorities(kLeaves, kInitialPriority);
  Floats expected(kLeaves, 1.0F);
  const auto raise = [&](std::size_t at, float priority) {
    priorities[at] = priority;
    std::fill(expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end(), priority);
  };
  raise(300, 2.0F);
  raise(511, 3.0F);
  raise(512, 4.0F);
  raise(1023, 5.0F);
  TreeSelector selector(raw(), kLeaves);
  selector.insert({0, priorities}, kNowhere);
  EXPECT_EQ(weights_of(selector, kLeaves), expected);
}

TEST(TreeSelector, TheMaximumIsThatOfAllShards) {
  TreeSelector selector(raw(), 3);
  selector.insert({0, Floats{2.0F}}, kNowhere);
  selector.insert({1, Floats{kInitialPriority}}, {.max = 6.0F, .highest_seen = 9.0F});
  selector.insert({2, Floats{kInitialPriority}}, kNowhere);
  EXPECT_EQ(weights_of(selector, 3), (Floats{2, 6, 6}));
}

TEST(TreeSelector, TheMaximumFallsWhenItsItemLeavesAndTheHighestSeenStays) {
  TreeSelector in_buffer(raw(), 4);
  TreeSelector ever(raw(InitialPriority::HighestSeen), 4);
  for (TreeSelector* const selector : {&in_buffer, &ever}) {
    selector->insert({0, Floats{5.0F, 2.0F}}, kNowhere);
    selector->erase(0, 1);
    EXPECT_EQ(selector->summary().max, 2.0F);
    EXPECT_EQ(selector->summary().highest_seen, 5.0F);
    selector->insert({2, Floats{kInitialPriority}}, kNowhere);
  }
  EXPECT_EQ(weights_of(in_buffer, 4), (Floats{0, 2, 2, 0}));
  EXPECT_EQ(weights_of(ever, 4), (Floats{0, 2, 5, 0}));
}

TEST(TreeSelector, TheHighestSeenIsThatOfAllShardsAndOfUpdatesToo) {
  TreeSelector selector(raw(InitialPriority::HighestSeen), 4);
  selector.insert({0, Floats{kInitialPriority}}, {.max = 3.0F, .highest_seen = 4.0F});
  selector.update(std::vector{0U}, Floats{9.0F});
  selector.update(std::vector{0U}, Floats{1.0F});
  selector.insert({1, Floats{kInitialPriority}}, kNowhere);
  EXPECT_EQ(weights_of(selector, 4), (Floats{1, 9, 0, 0}));
}

TEST(TreeSelector, AConstantIsTheInitialPriorityWhateverThereIs) {
  TreeSelector selector(raw(InitialPriority::Constant), 2);
  selector.insert({0, Floats{3.0F, kInitialPriority}}, {.max = 6.0F, .highest_seen = 9.0F});
  EXPECT_EQ(weights_of(selector, 2), (Floats{3, 0.5F}));
}

}  // namespace
}  // namespace reprise::select
