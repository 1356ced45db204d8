#include "tree/key_tree.hpp"

#include "../support/rng.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::tree {
namespace {

using Keys = std::vector<std::int64_t>;

/// The same as a plain array: keys, and which are hidden.
struct Model {
  explicit Model(std::size_t leaves) : keys(leaves), hidden(leaves) {}

  [[nodiscard]] std::int64_t visible(std::size_t leaf) const {
    return hidden[leaf] ? 0 : keys[leaf];
  }
  [[nodiscard]] std::uint32_t best() const {
    std::size_t leaf = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      leaf = visible(i) > visible(leaf) ? i : leaf;
    }
    return static_cast<std::uint32_t>(leaf);
  }

  Keys keys;
  std::vector<bool> hidden;
};

void expect_equal(const KeyTree& tree, const Model& model) {
  const std::uint32_t best = model.best();
  ASSERT_EQ(tree.best(), model.visible(best));
  std::size_t visible = 0;
  for (std::uint32_t leaf = 0; leaf < model.keys.size(); ++leaf) {
    ASSERT_EQ(tree.is_visible(leaf), model.visible(leaf) > 0) << "leaf " << leaf;
    visible += model.visible(leaf) > 0 ? 1U : 0U;
  }
  ASSERT_EQ(tree.visible(), visible);
  if (tree.best() != 0) {
    ASSERT_EQ(tree.best_leaf(), best);
  }
}

TEST(KeyTree, IsEmptyAtFirst) {
  for (const std::size_t leaves : {1U, 8U, 9U, 1000U}) {
    const KeyTree tree(leaves);
    EXPECT_EQ(tree.best(), 0);
    EXPECT_EQ(tree.visible(), 0U);
    EXPECT_GE(KeyTree::bytes(leaves), leaves * sizeof(std::int64_t));
  }
}

TEST(KeyTree, HidingAndShowingTwiceIsAsOnce) {
  KeyTree tree(10);
  tree.assign_run(3, Keys{5, 9, 7});
  tree.hide(4);
  tree.hide(4);
  EXPECT_EQ(tree.best(), 7);
  EXPECT_EQ(tree.visible(), 2U);
  tree.show(4);
  tree.show(4);
  EXPECT_EQ(tree.best(), 9);
  EXPECT_EQ(tree.visible(), 3U);
  tree.hide(0);
  EXPECT_EQ(tree.visible(), 3U) << "a leaf without key";
}

TEST(KeyTree, IsWhatAnArrayIsUnderRandomCalls) {
  const std::uint64_t seed = std::uint64_t{20260901};
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  test::Rng rng(seed);
  for (const std::size_t leaves : {1U, 7U, 8U, 9U, 63U, 64U, 65U, 513U}) {
    KeyTree tree(leaves);
    Model model(leaves);
    for (int step = 0; step < 400; ++step) {
      const auto leaf = static_cast<std::uint32_t>(rng.below(leaves));
      const std::size_t count = 1 + rng.below(leaves - leaf);
      switch (rng.below(5)) {
        case 0: {
          Keys keys(count);
          std::generate(keys.begin(), keys.end(),
                        [&] { return static_cast<std::int64_t>(rng.below(30)); });
          tree.assign_run(leaf, keys);
          std::copy(keys.begin(), keys.end(), model.keys.begin() + leaf);
          std::fill_n(model.hidden.begin() + leaf, count, false);
          break;
        }
        case 1:
          tree.clear_run(leaf, count);
          std::fill_n(model.keys.begin() + leaf, count, 0);
          std::fill_n(model.hidden.begin() + leaf, count, false);
          break;
        case 2:
          model.keys[leaf] = static_cast<std::int64_t>(rng.below(30));
          model.hidden[leaf] = false;
          tree.assign(leaf, model.keys[leaf]);
          break;
        case 3:
          tree.hide(leaf);
          model.hidden[leaf] = true;
          break;
        default:
          tree.show(leaf);
          model.hidden[leaf] = false;
      }
      if (model.keys[leaf] == 0) {
        model.hidden[leaf] = false;
      }
      expect_equal(tree, model);
    }
  }
}

}  // namespace
}  // namespace reprise::tree
