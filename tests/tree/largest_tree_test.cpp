// Compares the tree of largest values with a plain vector. Values are from -3 to 5, so that many
// are equal.

#include "tree/largest_tree.hpp"

#include "base/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::tree {
namespace {

template <class Value>
class LargestTreeOf : public ::testing::Test {};
using Types = ::testing::Types<float, std::int64_t>;
TYPED_TEST_SUITE(LargestTreeOf, Types);

TYPED_TEST(LargestTreeOf, KnowsTheFirstLargestLeafWhateverIsSetAndReplaced) {
  using Value = TypeParam;
  base::Random random(1);
  for (const std::size_t leaves : {1U, 8U, 9U, 200U, 5000U}) {
    LargestTree<Value> tree(leaves);
    std::vector<Value> model(leaves);
    const auto value = [&] { return static_cast<Value>(static_cast<int>(random.next() % 9) - 3); };
    for (int step = 0; step < 4000; ++step) {
      const auto first = std::ranges::max_element(model);
      const auto leaf = static_cast<std::size_t>(random.next() % leaves);
      if (random.next() % 2 == 0 && *first > Value{0}) {
        *first = value();
        ASSERT_EQ(tree.replace_largest(*first), first - model.begin());
      } else {
        model[leaf] = value();
        tree.assign(leaf, model[leaf]);
      }
      ASSERT_EQ(tree[leaf], model[leaf]);
      const auto now = std::ranges::max_element(model);
      ASSERT_EQ(tree.largest(), std::max(*now, Value{0}));
      if (*now > Value{0}) {
        ASSERT_EQ(tree.largest_leaf(), now - model.begin());
      }
    }
  }
}

}  // namespace
}  // namespace reprise::tree
