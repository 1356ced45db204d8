#include "tree/weight_tree.hpp"

#include "testing/fixtures/without_denormals.hpp"
#include "testing/test.hpp"
#include "weight_model.hpp"

namespace reprise::tree {
namespace {

std::vector<std::size_t> all_sizes() {
  std::vector<std::size_t> sizes;
  for (std::size_t n = 1; n <= 300; ++n) {
    sizes.push_back(n);
  }
  for (std::size_t power = 512; power <= 16384; power *= 2) {
    sizes.insert(sizes.end(), {power - 1, power, power + 1});
  }
  return sizes;
}

/// Makes the same random call on the tree and the model.
void step(WeightTree& tree, WeightModel& model, base::Random& random) {
  std::vector<float>& weights = model.weights();
  const std::size_t first = random.next() % weights.size();
  const std::size_t count = random.next() % (weights.size() - first + 1);
  const auto at = weights.begin() + static_cast<std::ptrdiff_t>(first);
  switch (random.next() % 4) {
    case 0: {
      std::generate_n(at, count, [&] { return whole_weight(random, 1000); });
      tree.assign_run(static_cast<std::uint32_t>(first), std::span(weights).subspan(first, count));
      break;
    }
    case 1: {
      std::fill_n(at, count, 0.0F);
      tree.clear_run(static_cast<std::uint32_t>(first), count);
      break;
    }
    default: {
      std::vector<std::uint32_t> leaves(random.next() % 1200);  // More leaves than two blocks.
      std::vector<float> values(leaves.size());
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        leaves[i] = static_cast<std::uint32_t>(random.next() % weights.size());
        values[i] = whole_weight(random, std::uint64_t{1} << 24U);
        weights[leaves[i]] = values[i];
      }
      tree.assign(leaves, values);
    }
  }
}

TEST(WeightTree, StartsEmpty) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
    const WeightTree tree(n);
    EXPECT_EQ(tree.leaves(), n);
    EXPECT_EQ(tree.total(), 0.0);
    EXPECT_EQ(tree.max(), 0.0F);
    EXPECT_EQ(tree.min_positive(), std::numeric_limits<float>::infinity());
  }
}

TEST(WeightTree, AgreesWithPlainLoopsAtEverySmallSize) {
  for (const std::size_t n : all_sizes()) {
    SCOPED_TRACE(testing::Message() << "leaves and seed " << n);
    base::Random random(n);
    WeightTree tree(n);
    WeightModel model(n);
    for (int i = 0; i < 12; ++i) {
      step(tree, model, random);
      ASSERT_NO_FATAL_FAILURE(expect_equal(tree, model, random));
    }
    ASSERT_NO_FATAL_FAILURE(expect_as_if_fresh(tree, random));
  }
}

TEST(WeightTree, AgreesWithPlainLoopsAtAMillionLeaves) {
  constexpr std::size_t kLeaves = std::size_t{1} << 20U;
  for (const std::size_t n : {kLeaves - 1, kLeaves, kLeaves + 1}) {
    SCOPED_TRACE(testing::Message() << "leaves and seed " << n);
    base::Random random(n);
    WeightTree tree(n);
    WeightModel model(n);
    for (int i = 0; i < 6; ++i) {
      step(tree, model, random);
    }
    ASSERT_NO_FATAL_FAILURE(expect_equal(tree, model, random, 20000));
  }
}

TEST(WeightTree, SumsOfRunsAreThoseOfPlainLoops) {
  for (const std::size_t n : all_sizes()) {
    SCOPED_TRACE(testing::Message() << n << " leaves");
    WeightTree tree(n);
    WeightModel model(n);
    base::Random random(n);
    for (int i = 0; i < 4; ++i) {
      step(tree, model, random);
      const std::size_t first = random.next() % (n + 1);
      const std::size_t count = random.next() % (n - first + 1);
      const auto begin = model.weights().begin() + static_cast<std::ptrdiff_t>(first);
      ASSERT_EQ(tree.sum_run(first, count),
                std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count), 0.0))
          << "of " << count << " leaves from " << first;
      ASSERT_EQ(tree.sum_run(0, n), tree.total());
    }
  }
}

TEST(WeightTree, ALonePositiveLeafIsFoundFromEverywhere) {
  constexpr std::size_t kLeaves = 2500;
  WeightTree tree(kLeaves);
  for (const std::uint32_t leaf : {0U, 1U, 15U, 16U, 127U, 128U, 2047U, 2048U, 2498U, 2499U}) {
    tree.clear_run(0, kLeaves);
    tree.assign_run(leaf, std::vector{0.1F});
    const auto all = static_cast<double>(0.1F);
    const Found found = find(tree, {0.0, all / 3, std::nextafter(all, 0.0), all, 2 * all, -1.0});
    EXPECT_EQ(found.leaves, std::vector<std::uint32_t>(6, leaf));
    EXPECT_EQ(found.weights, std::vector<float>(6, 0.1F));
  }
}

TEST(WeightTree, TargetsOutsideAreClampedToTheFirstAndLastPositiveLeaf) {
  WeightTree tree(100);
  tree.assign(std::vector{7U, 90U}, std::vector{1.0F, 1.0F});
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Found found = find(tree, {-kInf, -0.0, 0.0, kNan, 2.0, 3.0, kInf});
  EXPECT_EQ(found.leaves, (std::vector<std::uint32_t>{7, 7, 7, 7, 90, 90, 90}));
}

TEST(WeightTree, ARemainderThatRoundsUpToTheChildsWholeSumStaysInTheChild) {
  // With u for kUnit, prefix sums of the nodes are 1, 1, 1 (a tie, rounded down to even), 1 + 2 u
  // (a tie, rounded up to even). The target 1 + u falls on the last node, u after its start; this
  // remainder is the node's whole sum.
  constexpr float kUnit = 0x1p-52F;
  // The leaves are siblings on three levels.
  for (const std::uint32_t spread : {16U, 128U, 1024U}) {
    WeightTree tree(std::size_t{16} * spread);
    tree.assign(std::vector{0U, 2 * spread, 3 * spread}, std::vector{1.0F, kUnit / 2, kUnit});
    const Found found = find(tree, {1.0 + static_cast<double>(kUnit)});
    EXPECT_EQ(found.leaves[0], 3 * spread);
    EXPECT_EQ(found.weights[0], kUnit);
  }
}

TEST(WeightTree, EmptySpansChangeNothing) {
  WeightTree tree(33);
  tree.assign_run(3, std::vector{1.0F, 2.0F});
  tree.assign_run(0, {});
  tree.clear_run(3, 0);
  tree.assign({}, {});
  tree.find({}, {}, {});
  EXPECT_EQ(tree.total(), 3.0);
}

TEST(WeightTree, NegativeZeroIsZero) {
  WeightTree tree(16);
  tree.assign_run(0, std::vector(16, -0.0F));
  tree.assign(std::vector{3U}, std::vector{-0.0F});
  EXPECT_FALSE(std::signbit(tree.weight(3)));
  EXPECT_FALSE(std::signbit(tree.total()));
  EXPECT_FALSE(std::signbit(tree.max()));
  EXPECT_EQ(tree.min_positive(), std::numeric_limits<float>::infinity());
}

TEST(WeightTree, TakesTheWholeRangeOfNormalFloats) {
  constexpr float kLarge = std::numeric_limits<float>::max();
  constexpr float kSmall = std::numeric_limits<float>::min();
  constexpr std::size_t kLeaves = std::size_t{1} << 16U;
  WeightTree tree(kLeaves);
  tree.assign_run(0, std::vector(kLeaves, kLarge));
  EXPECT_EQ(tree.total(), static_cast<double>(kLarge) * kLeaves);
  tree.assign_run(0, std::vector(kLeaves, kSmall));
  EXPECT_EQ(tree.total(), static_cast<double>(kSmall) * kLeaves);
  EXPECT_EQ(tree.min_positive(), kSmall);
  EXPECT_EQ(find(tree, {tree.total() / 2}).leaves[0], kLeaves / 2);
  tree.assign(std::vector{1234U}, std::vector{kLarge});
  EXPECT_EQ(tree.min_positive(), kSmall);
  EXPECT_EQ(tree.max(), kLarge);
  EXPECT_EQ(find(tree, {0.0}).leaves[0], 0U);
  EXPECT_EQ(find(tree, {tree.total() / 2}).leaves[0], 1234U);
}

TEST(WeightTree, ADenormalWeightCountsAsTheSmallestNormalOneOnEveryThread) {
  REPRISE_SKIP_WITHOUT_FLUSHING();
  constexpr float kNormal = std::numeric_limits<float>::min();
  constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
  for (const bool flushed : {false, true}) {
    SCOPED_TRACE(testing::Message() << "written flushed " << flushed);
    WeightTree tree(1000);
    test::call_flushed(flushed, [&] {
      tree.assign(std::vector{17U, 18U}, std::vector{kDenormal, kNormal / 2});
      tree.assign_run(500, std::vector{0.0F, kNormal, kDenormal});
    });
    EXPECT_EQ(tree.total(), 4 * double{kNormal});
    EXPECT_EQ(tree.min_positive(), kNormal);
    EXPECT_EQ(tree.max(), kNormal);
    const std::vector<std::uint32_t> positive{17, 18, 501, 502};
    std::vector<double> targets;
    for (int quarter = 0; quarter < 4; ++quarter) {
      targets.push_back((quarter + 0.5) * double{kNormal});
    }
    for (const bool drawn_flushed : {false, true}) {
      const Found found = test::call_flushed(drawn_flushed, [&] { return find(tree, targets); });
      EXPECT_EQ(found.leaves, positive) << "drawn flushed " << drawn_flushed;
      EXPECT_EQ(found.weights, std::vector<float>(4, kNormal));
      EXPECT_TRUE(test::call_flushed(drawn_flushed, [&] { return tree.all_positive(positive); }));
    }
  }
}

TEST(WeightTree, MovingKeepsWeights) {
  WeightTree tree(300);
  tree.assign_run(299, std::vector{5.0F});
  const WeightTree moved(std::move(tree));
  EXPECT_EQ(moved.total(), 5.0);
  EXPECT_EQ(find(moved, {1.0}).leaves[0], 299U);
}

TEST(WeightTree, BytesGrowWithTheLeavesAndStayBelowTwoFloatsEach) {
  EXPECT_GE(WeightTree::bytes(1), sizeof(float));
  EXPECT_GE(WeightTree::bytes(1000), 1000 * sizeof(float));
  EXPECT_LE(WeightTree::bytes(1U << 20U), (1U << 20U) * 2 * sizeof(float));
}

}  // namespace
}  // namespace reprise::tree
