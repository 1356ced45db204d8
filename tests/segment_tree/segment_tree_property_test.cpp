#include "../tree/simd_targets.hpp"
#include "testing/test.hpp"

#include <bit>

namespace reprise {
namespace {

/// A tree beside a plain vector of its leaves. Leaves are multiples of 2^-12 and so small that
/// every sum is exact, so tree and vector have to agree bit for bit.
template <class Leaf>
class TreeAndVector {
 public:
  TreeAndVector(std::size_t capacity, std::uint64_t seed)
      : tree_(capacity), leaves_(capacity, Leaf{0}), random_(seed), lowest_(seed % 2 ? -1000 : 0) {}

  /// Makes the same random change to the tree and the vector.
  void change() {
    const std::size_t first = random_.below(leaves_.size());
    const std::size_t last = random_.between(first, leaves_.size());
    const Leaf value = random_value();
    switch (random_.below(6)) {
      case 0:
        tree_.assign(first, value);
        leaves_[first] = value;
        break;
      case 1:
        assign_batch();
        break;
      case 2: {
        std::vector<Leaf> values(last - first);
        std::generate(values.begin(), values.end(), [&] { return random_value(); });
        tree_.assign_range(first, values);
        std::copy(values.begin(), values.end(), at(first));
        break;
      }
      case 3:
        tree_.fill(first, last, value);
        std::fill(at(first), at(last), value);
        break;
      case 4: {
        const Leaf factors[] = {0, 1, 2, Leaf(0.5), Leaf(lowest_ < 0 ? -1 : 1)};
        const Leaf factor = factors[random_.below(5)];
        tree_.scale(first, last, factor);
        // Adding 0 makes the -0 of a factor of -1 the 0 that the tree stores.
        std::for_each(at(first), at(last), [&](Leaf& leaf) { leaf = leaf * factor + Leaf{0}; });
        break;
      }
      default:
        tree_.add(first, last, value);
        std::for_each(at(first), at(last), [&](Leaf& leaf) { leaf += value; });
    }
  }

  /// Compares the leaves, the ranges that begin at leaf 0, the whole, and searches.
  void expect_equal() {
    ASSERT_TRUE(std::equal(leaves_.begin(), leaves_.end(), tree_.leaves().begin()));
    ASSERT_NO_FATAL_FAILURE(expect_ranges_from(0, leaves_.size()));
    ASSERT_EQ(tree_.total(), tree_.sum(0, leaves_.size()));
    ASSERT_EQ(tree_.min(), tree_.min(0, leaves_.size()));
    ASSERT_EQ(tree_.max(), tree_.max(0, leaves_.size()));
    ASSERT_NO_FATAL_FAILURE(expect_search());
  }

  /// Compares each range that begins at `first` and ends at or before `end`, and the range from
  /// `first` to the tree's end.
  void expect_ranges_from(std::size_t first, std::size_t end) {
    double sum = 0.0;
    Leaf min = std::numeric_limits<Leaf>::infinity();
    Leaf max = -min;
    for (std::size_t last = first; last <= leaves_.size(); ++last) {
      if (last <= end || last == leaves_.size()) {
        ASSERT_EQ(tree_.sum(first, last), sum) << first << " to " << last;
        ASSERT_EQ(tree_.min(first, last), min) << first << " to " << last;
        ASSERT_EQ(tree_.max(first, last), max) << first << " to " << last;
      }
      if (last < leaves_.size()) {
        sum += static_cast<double>(leaves_[last]);
        min = std::min(min, leaves_[last]);
        max = std::max(max, leaves_[last]);
      }
    }
  }

  test::Rng& random() { return random_; }

 private:
  typename std::vector<Leaf>::iterator at(std::size_t leaf) {
    return leaves_.begin() + static_cast<std::ptrdiff_t>(leaf);
  }
  /// A random whole number; 0 in at least one of three cases.
  Leaf random_value() {
    const auto whole = static_cast<int>(random_.below(1000)) + (random_.chance(0.5) ? lowest_ : 0);
    return random_.below(3) == 0 ? Leaf{0} : static_cast<Leaf>(whole);
  }
  void assign_batch() {
    std::vector<std::size_t> leaves(random_.below(700));
    std::vector<Leaf> values(leaves.size());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      leaves[i] = random_.below(leaves_.size());
      values[i] = random_value();
      leaves_[leaves[i]] = values[i];
    }
    tree_.assign(leaves, values);
  }

  void expect_search() {
    if (!(tree_.min() >= Leaf{0} && tree_.total() > 0.0)) {
      ASSERT_THROW((void)tree_.find_prefix_sum(0.0), std::invalid_argument);
      return;
    }
    std::vector<double> targets{0.0, std::nextafter(tree_.total(), 0.0)};
    for (std::size_t i = 0; i < 600; ++i) {  // Enough targets for more than one block.
      targets.push_back(random_.unit() * tree_.total());
      // Many targets lie exactly where a leaf begins.
      targets.push_back(std::floor(targets.back()));
    }
    std::vector<std::size_t> found(targets.size());
    tree_.find_prefix_sum(targets, found);
    std::vector<double> through(leaves_.size());
    double sum = 0.0;
    std::transform(leaves_.begin(), leaves_.end(), through.begin(),
                   [&](Leaf leaf) { return sum += static_cast<double>(leaf); });
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const auto expected = std::upper_bound(through.begin(), through.end(), targets[i]);
      ASSERT_EQ(found[i], static_cast<std::size_t>(expected - through.begin()))
          << "target " << targets[i];
    }
    ASSERT_EQ(tree_.find_prefix_sum(targets.back()), found.back());
  }

  SegmentTree<Leaf> tree_;
  std::vector<Leaf> leaves_;
  test::Rng random_;
  const int lowest_;  ///< The lowest leaf, which is below 0 in half of the trees.
};

template <class Leaf>
class SegmentTreeProperty : public testing::Test {};
using LeafTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(SegmentTreeProperty, LeafTypes);

/// Each change may halve a leaf, so after more changes a leaf might be no multiple of 2^-12.
constexpr int kChanges = 12;

/// The tree is compared after each change, and in the end over all ranges that begin at other
/// leaves.
TYPED_TEST(SegmentTreeProperty, EqualsPlainLoopsOverEveryRangeOfSmallTrees) {
  for (std::size_t capacity = 1; capacity <= 70; ++capacity) {
    for (std::uint64_t seed = 0; seed < test::scaled(4, 2); ++seed) {
      SCOPED_TRACE(testing::Message() << "capacity " << capacity << ", seed " << seed);
      TreeAndVector<TypeParam> pair(capacity, seed);
      for (int i = 0; i < kChanges; ++i) {
        pair.change();
        ASSERT_NO_FATAL_FAILURE(pair.expect_equal());
      }
      for (std::size_t first = 1; first <= capacity; ++first) {
        ASSERT_NO_FATAL_FAILURE(pair.expect_ranges_from(first, capacity));
      }
    }
  }
}

TYPED_TEST(SegmentTreeProperty, EqualsPlainLoopsInLargeTrees) {
  for (const std::size_t capacity :
       {127U, 128U, 129U, 1023U, 1024U, 1025U, 8191U, 65'537U, 100'003U}) {
    for (std::uint64_t seed = 0; seed < test::scaled(4, 2); ++seed) {
      SCOPED_TRACE(testing::Message() << "capacity " << capacity << ", seed " << seed);
      TreeAndVector<TypeParam> pair(capacity, seed);
      for (int i = 0; i < kChanges; ++i) {
        pair.change();
      }
      ASSERT_NO_FATAL_FAILURE(pair.expect_equal());
      for (int i = 0; i < 10; ++i) {
        const std::size_t first = pair.random().below(capacity);
        ASSERT_NO_FATAL_FAILURE(pair.expect_ranges_from(first, first + 300));
      }
    }
  }
}

/// A random number from 2^-60 to 2^60, computed without library functions whose results may differ
/// between platforms.
template <class Leaf>
Leaf random_magnitude(test::Rng& random) {
  const auto exponent = static_cast<std::uint64_t>(1023 - 60) + random.below(120);
  return static_cast<Leaf>(std::bit_cast<double>(exponent << 52U | random.next() >> 12U));
}

/// A tree after many changes to its leaves, whose values have any magnitude.
template <class Leaf>
SegmentTree<Leaf> old_tree(test::Rng& random) {
  const std::size_t capacity = random.between(1, 5'000);
  SegmentTree<Leaf> tree(capacity);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::size_t> leaves(random.below(300));
    std::vector<Leaf> values(leaves.size());
    std::generate(leaves.begin(), leaves.end(), [&] { return random.below(capacity); });
    std::generate(values.begin(), values.end(),
                  [&] { return random.chance(0.3) ? Leaf{0} : random_magnitude<Leaf>(random); });
    tree.assign(leaves, values);
    const std::size_t first = random.below(capacity);
    const std::size_t last = random.between(first, capacity);
    tree.scale(first, last, static_cast<Leaf>(random.unit()));
    tree.add(first, last, round % 5 == 0 ? random_magnitude<Leaf>(random) : Leaf{0});
  }
  return tree;
}

TYPED_TEST(SegmentTreeProperty, AnyHistoryEqualsWritingTheFinalLeavesOnce) {
  for (std::uint64_t seed = 0; seed < test::scaled(100, 20); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    test::Rng random(seed);
    const auto tree = old_tree<TypeParam>(random);
    SegmentTree<TypeParam> fresh(tree.capacity());
    fresh.assign_range(0, tree.leaves());
    ASSERT_EQ(tree.total(), fresh.total());
    ASSERT_EQ(tree.min(), fresh.min());
    ASSERT_EQ(tree.max(), fresh.max());
    for (int i = 0; i < 100; ++i) {
      const std::size_t first = random.below(tree.capacity());
      const std::size_t last = random.between(first, tree.capacity());
      ASSERT_EQ(tree.sum(first, last), fresh.sum(first, last));
      double sum = 0.0;
      for (std::size_t leaf = first; leaf < last; ++leaf) {
        sum += static_cast<double>(tree.leaf(leaf));
      }
      ASSERT_NEAR(tree.sum(first, last), sum, 1e-12 * sum);
    }
  }
}

TYPED_TEST(SegmentTreeProperty, EverySearchEndsOnALeafAboveZero) {
  for (std::uint64_t seed = 0; seed < test::scaled(100, 20); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    test::Rng random(seed);
    const auto tree = old_tree<TypeParam>(random);
    if (!(tree.total() > 0.0)) {
      continue;
    }
    std::vector<double> targets{0.0, tree.total()};
    while (targets.size() < 1'000) {
      targets.push_back(random.unit() * tree.total());
    }
    std::sort(targets.begin(), targets.end());
    std::vector<std::size_t> found(targets.size());
    tree.find_prefix_sum(targets, found);
    for (const std::size_t leaf : found) {
      ASSERT_GT(tree.leaf(leaf), TypeParam{0});
    }
    ASSERT_TRUE(std::is_sorted(found.begin(), found.end()));
  }
}

TYPED_TEST(SegmentTreeProperty, EveryInstructionSetGivesTheSameBits) {
  for (std::uint64_t seed = 0; seed < test::scaled(30, 10); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::vector<std::vector<double>> answers;
    tree::for_each_target([&] {
      test::Rng random(seed);
      const auto tree = old_tree<TypeParam>(random);
      std::vector<double>& answer = answers.emplace_back();
      answer = {tree.total(), static_cast<double>(tree.min()), static_cast<double>(tree.max())};
      for (int i = 0; i < 100; ++i) {
        answer.push_back(tree.sum(random.below(tree.capacity()), tree.capacity()));
        answer.push_back(tree.total() > 0.0 ? static_cast<double>(tree.find_prefix_sum(
                                                  random.unit() * tree.total()))
                                            : 0.0);
      }
    });
    ASSERT_EQ(std::count(answers.begin(), answers.end(), answers[0]),
              static_cast<std::ptrdiff_t>(answers.size()));
  }
}

}  // namespace
}  // namespace reprise
