#include "testing/fixtures/without_denormals.hpp"
#include "testing/test.hpp"

namespace reprise {
namespace {

template <class Leaf>
SegmentTree<Leaf> tree_of(const std::vector<Leaf>& leaves) {
  SegmentTree<Leaf> tree(leaves.size());
  tree.assign_range(0, leaves);
  return tree;
}

/// The leaves on which the targets fall, searched one by one and together.
template <class Leaf>
std::vector<std::size_t> found(const SegmentTree<Leaf>& tree, const std::vector<double>& targets) {
  std::vector<std::size_t> leaves(targets.size());
  tree.find_prefix_sum(targets, leaves);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    EXPECT_EQ(tree.find_prefix_sum(targets[i]), leaves[i]) << "target " << targets[i];
  }
  return leaves;
}

template <class Leaf>
class SegmentTreeTest : public testing::Test {};
using LeafTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(SegmentTreeTest, LeafTypes);

// These are the searches in the tests of OpenAI Baselines' segment tree.
TYPED_TEST(SegmentTreeTest, SearchesAsOpenAiBaselines) {
  SegmentTree<TypeParam> tree(4);
  tree.assign(2, TypeParam{1});
  tree.assign(3, TypeParam{3});
  EXPECT_EQ(tree.sum(0, 2), 0.0);
  EXPECT_EQ(tree.sum(0, 3), 1.0);
  EXPECT_EQ(tree.sum(2, 4), 4.0);
  EXPECT_EQ(found(tree, {0.0, 0.5, 0.99, 1.01, 3.0, 4.0}),
            (std::vector<std::size_t>{2, 2, 2, 3, 3, 3}));
  tree.assign_range(0, std::vector<TypeParam>{TypeParam(0.5), 1, 1, 3});
  EXPECT_EQ(found(tree, {0.0, 0.55, 0.99, 1.51, 3.0, 5.5}),
            (std::vector<std::size_t>{0, 1, 1, 2, 3, 3}));
}

TYPED_TEST(SegmentTreeTest, TheTotalAndRoundingAboveItFallOnTheLastLeafAboveZero) {
  SegmentTree<TypeParam> tree(1000);
  tree.fill(10, 500, TypeParam(0.1));
  EXPECT_EQ(found(tree, {tree.total(), tree.total() * (1 + 0.9e-9)}),
            (std::vector<std::size_t>{499, 499}));
  EXPECT_EQ(tree.find_prefix_sum(0.0), 10U);
  EXPECT_EQ(tree.find_prefix_sum(-0.0), 10U);
}

TYPED_TEST(SegmentTreeTest, ARemainderThatRoundsUpToTheChildsWholeSumStaysInTheChild) {
  // With u for kUnit, prefix sums of the nodes are 1, 1 (a tie, rounded down to even), 1 + 2 u (a
  // tie, rounded up to even). The target 1 + u falls on the last node, u after its start; this
  // remainder is the node's whole sum.
  constexpr auto kUnit = TypeParam(0x1p-52);
  // The leaves are siblings on different levels.
  for (const std::size_t spread : {16U, 128U, 1024U}) {
    SegmentTree<TypeParam> tree(16 * spread);
    tree.assign(0, TypeParam{1});
    tree.assign(2 * spread, kUnit / 2);
    tree.assign(3 * spread, kUnit);
    EXPECT_EQ(tree.find_prefix_sum(1.0 + static_cast<double>(kUnit)), 3 * spread);
  }
}

TYPED_TEST(SegmentTreeTest, NegativeZeroIsStoredAsZero) {
  SegmentTree<TypeParam> tree(40);
  tree.assign(0, TypeParam(-0.0));
  tree.assign_range(1, std::vector<TypeParam>{TypeParam(-0.0)});
  tree.fill(2, 4, TypeParam(-0.0));
  tree.scale(0, 40, TypeParam{-1});
  for (const TypeParam leaf : tree.leaves()) {
    EXPECT_FALSE(std::signbit(leaf));
  }
  EXPECT_FALSE(std::signbit(tree.min()));
  EXPECT_FALSE(std::signbit(tree.total()));
}

TYPED_TEST(SegmentTreeTest, WhatIsScaledBelowTheSmallestNumberIsNeverFound) {
  constexpr auto kTiny = std::numeric_limits<TypeParam>::min();
  auto tree = tree_of<TypeParam>({kTiny, 1, kTiny});
  tree.scale(0, 3, TypeParam(0.25));
  EXPECT_EQ(tree.leaf(0), TypeParam{0});
  EXPECT_EQ(found(tree, {0.0, 0.25}), (std::vector<std::size_t>{1, 1}));
}

TYPED_TEST(SegmentTreeTest, DenormalNumbersAreStoredAsZeroOnEveryThread) {
  REPRISE_SKIP_WITHOUT_FLUSHING();
  constexpr auto kSmallest = std::numeric_limits<TypeParam>::min();
  constexpr auto kDenormal = kSmallest / 2;
  for (const bool flushed : {false, true}) {
    SegmentTree<TypeParam> tree(40);
    test::call_flushed(flushed, [&] {
      tree.assign(0, kDenormal);
      tree.assign_range(1, std::vector<TypeParam>{-kDenormal, kSmallest, -kSmallest});
      tree.fill(4, 8, kDenormal);
      tree.fill(8, 12, TypeParam(1.5) * kSmallest);
      tree.scale(8, 10, TypeParam(0.25));
      tree.add(10, 12, -kSmallest);
      tree.fill(12, 14, std::numeric_limits<TypeParam>::max() / TypeParam(0x1p50));
      tree.scale(12, 14, kDenormal);
      tree.fill(14, 16, kSmallest);
      tree.add(14, 16, -kDenormal);
    });
    for (std::size_t leaf = 0; leaf < 40; ++leaf) {
      const TypeParam expected = leaf == 3                    ? -kSmallest
                                 : leaf == 2 || leaf / 2 == 7 ? kSmallest
                                                              : TypeParam{0};
      EXPECT_EQ(tree.leaf(leaf), expected) << "leaf " << leaf << ", flushed " << flushed;
    }
    EXPECT_EQ(tree.max(4, 14), TypeParam{0});
    EXPECT_EQ(tree.total(), 2 * double{kSmallest});
  }
}

TYPED_TEST(SegmentTreeTest, AThreadThatFlushesDenormalsFindsALeafAboveZero) {
  REPRISE_SKIP_WITHOUT_FLUSHING();
  constexpr auto kSmallest = std::numeric_limits<TypeParam>::min();
  SegmentTree<TypeParam> tree(400);
  tree.fill(0, 400, kSmallest / 2);
  tree.assign(5, kSmallest);
  const std::vector<double> targets{0.0, tree.total() / 2, tree.total()};
  const auto leaves = test::call_flushed(true, [&] { return found(tree, targets); });
  for (const std::size_t leaf : leaves) {
    ASSERT_LT(leaf, tree.capacity());
    EXPECT_GT(tree.leaf(leaf), TypeParam{0});
  }
}

TYPED_TEST(SegmentTreeTest, MovingKeepsLeaves) {
  auto tree = tree_of<TypeParam>({1, 2, 3});
  SegmentTree<TypeParam> moved(std::move(tree));
  EXPECT_EQ(moved.total(), 6.0);
  moved = tree_of<TypeParam>({4, 5});
  EXPECT_EQ(moved.capacity(), 2U);
  EXPECT_EQ(moved.total(), 9.0);
}

TEST(SegmentTreeRange, SumsOfTheLargestLeavesAreFinite) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  SegmentTree<float> floats(1000);
  floats.fill(0, 1000, kLargest);
  EXPECT_EQ(floats.total(), static_cast<double>(kLargest) * 1000);
  SegmentTree<double> doubles(1024);
  doubles.fill(0, 1024, 0x1p980);
  EXPECT_EQ(doubles.total(), 0x1p990);
  EXPECT_EQ(doubles.find_prefix_sum(0x1p989), 512U);
}

/// Expects the call to throw with these words and to leave every leaf and sum unchanged.
template <class Leaf, class Call>
void expect_refused(SegmentTree<Leaf>& tree, const Call& call,
                    std::initializer_list<std::string_view> words) {
  const std::vector<Leaf> leaves(tree.leaves().begin(), tree.leaves().end());
  const double total = tree.total();
  test::expect_refusal(call, words);
  EXPECT_EQ(std::vector<Leaf>(tree.leaves().begin(), tree.leaves().end()), leaves);
  EXPECT_EQ(tree.total(), total);
}

TYPED_TEST(SegmentTreeTest, RefusesWrongCapacities) {
  const auto make = [](std::size_t capacity) { return SegmentTree<TypeParam>(capacity); };
  test::expect_refusal([&] { make(0); }, {"capacity = 0", "allowed: 1 to 1099511627776"});
  test::expect_refusal([&] { make((std::size_t{1} << 40U) + 1); }, {"capacity = 1099511627777"});
  test::expect_refusal([&] { make(std::numeric_limits<std::size_t>::max()); }, {"capacity"});
}

TYPED_TEST(SegmentTreeTest, RefusesWrongLeavesRangesAndSizes) {
  auto tree = tree_of<TypeParam>({1, 2, 3, 4, 5});
  using Values = std::vector<TypeParam>;
  using Leaves = std::vector<std::size_t>;
  constexpr auto kHuge = std::numeric_limits<std::size_t>::max();
  const auto refused = [&](const auto& call, std::initializer_list<std::string_view> words) {
    expect_refused(tree, call, words);
  };
  for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{3, 2}, {0, 6}, {6, 6}}) {
    refused([&] { (void)tree.sum(first, last); }, {"sum", "first <= last <= 5"});
    refused([&] { (void)tree.min(first, last); }, {"min", "first"});
    refused([&] { (void)tree.max(first, last); }, {"max", "first"});
    refused([&] { tree.fill(first, last, TypeParam{9}); }, {"fill", "last"});
    refused([&] { tree.scale(first, last, TypeParam{9}); }, {"scale", "last"});
    refused([&] { tree.add(first, last, TypeParam{9}); }, {"add", "last"});
  }
  refused([&] { (void)tree.leaf(5); }, {"leaf = 5", "below 5"});
  refused([&] { tree.assign(5, TypeParam{9}); }, {"leaves[0] = 5", "below 5"});
  refused([&] { tree.assign(Leaves{0, 1, kHuge}, Values{9, 9, 9}); }, {"leaves[2]", "below 5"});
  refused([&] { tree.assign(Leaves{0, 1}, Values{9}); }, {"2 leaves and 1 values"});
  refused([&] { tree.assign_range(4, Values{9, 9}); }, {"first = 4 and 2 values", "at most 5"});
  refused([&] { tree.assign_range(kHuge, Values{9, 9}); }, {"first", "at most 5"});
  Leaves one(1);
  refused([&] { tree.find_prefix_sum(std::vector{0.0, 0.0}, one); }, {"2 targets and 1 leaves"});
}

TYPED_TEST(SegmentTreeTest, RefusesWhatIsNotFinite) {
  auto tree = tree_of<TypeParam>({1, 2, 3, 4, 5});
  using Values = std::vector<TypeParam>;
  using Limits = std::numeric_limits<TypeParam>;
  const std::pair<TypeParam, const char*> wrong_values[] = {
      {Limits::quiet_NaN(), "nan"}, {Limits::infinity(), "inf"}, {-Limits::infinity(), "-inf"}};
  for (const auto& [wrong, name] : wrong_values) {
    const auto refused = [&, word = std::string_view(name)](const auto& call,
                                                            std::string_view argument) {
      expect_refused(tree, call, {argument, word, "allowed: finite"});
    };
    refused([&] { tree.assign(2, wrong); }, "values[0] = ");
    refused([&] { tree.assign(std::vector<std::size_t>{0, 1}, Values{9, wrong}); }, "values[1] = ");
    refused([&] { tree.assign_range(1, Values{9, 9, wrong}); }, "values[2] = ");
    refused([&] { tree.fill(0, 5, wrong); }, "value = ");
    refused([&] { tree.scale(0, 5, wrong); }, "factor = ");
    refused([&] { tree.add(0, 5, wrong); }, "value = ");
    refused([&] { tree.add(2, 2, wrong); }, "value = ");
  }
}

TYPED_TEST(SegmentTreeTest, RefusesToScaleOrAddBeyondTheLargestLeaf) {
  constexpr TypeParam kLargest = std::is_same_v<TypeParam, double>
                                     ? TypeParam(0x1p980)
                                     : std::numeric_limits<TypeParam>::max();
  auto tree = tree_of<TypeParam>({1, -kLargest, 3, 4, 5});
  expect_refused(tree, [&] { tree.scale(0, 5, TypeParam{2}); }, {"scale", "leaf 1 would turn"});
  expect_refused(tree, [&] { tree.add(0, 3, -kLargest); }, {"add", "leaf 1 would turn"});
  tree.scale(2, 5, TypeParam{2});  // Only the leaves within the range are checked.
  tree.scale(0, 2, TypeParam{-1});
  EXPECT_EQ(tree.max(), kLargest);
}

TEST(SegmentTreeRange, RefusesDoublesWhoseSumsCouldOverflow) {
  SegmentTree<double> tree(3);
  expect_refused(tree, [&] { tree.assign(0, 0x1.001p980); }, {"values[0]", "2^980"});
  expect_refused(tree, [&] { tree.assign(0, std::numeric_limits<double>::lowest()); }, {"2^980"});
}

TYPED_TEST(SegmentTreeTest, RefusesTargetsOutsideTheTotal) {
  auto tree = tree_of<TypeParam>({4, 5, 1, 3});
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> leaves{7, 7};
  for (const double wrong : {-1e-300, -1.0, 13.0 * (1 + 1e-8), 14.0, kInf, -kInf, kNan}) {
    expect_refused(tree,
                   [&] {
                     tree.find_prefix_sum(std::vector{0.0, wrong}, leaves);
                   },
                   {"targets[1] = ", "0 to the total, 13"});
  }
  EXPECT_EQ(leaves, (std::vector<std::size_t>{7, 7}));
}

TYPED_TEST(SegmentTreeTest, RefusesToSearchWhereThereIsNothingToFind) {
  SegmentTree<TypeParam> tree(20);
  expect_refused(tree, [&] { (void)tree.find_prefix_sum(0.0); }, {"no leaf is above 0"});
  tree.fill(0, 20, TypeParam{1});
  tree.assign(13, TypeParam{-2});
  expect_refused(tree, [&] { (void)tree.find_prefix_sum(0.0); }, {"leaf 13 is -2", "at least 0"});
}

}  // namespace
}  // namespace reprise
