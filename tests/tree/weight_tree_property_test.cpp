#include "base/normal.hpp"
#include "testing/test.hpp"
#include "tree/weight_tree.hpp"
#include "weight_model.hpp"

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>

namespace reprise::tree {
namespace {

/// Weights of any magnitude, including zeros, denormals and the largest float.
rc::Gen<float> random_weight() {
  return rc::gen::weightedOneOf<float>(
      {{2, rc::gen::just(0.0F)},
       {1, rc::gen::just(std::numeric_limits<float>::max())},
       {1, rc::gen::just(std::numeric_limits<float>::denorm_min())},
       {4, rc::gen::map(rc::gen::inRange(0, 1000), [](int n) { return static_cast<float>(n); })},
       {8, rc::gen::map(rc::gen::inRange<std::uint32_t>(0, 0x7F800000U),
                        [](std::uint32_t bits) { return std::bit_cast<float>(bits); })}});
}

struct Write {
  std::vector<std::uint32_t> leaves;
  std::vector<float> weights;
  bool run = false;

  friend void showValue(const Write& write, std::ostream& out) {
    rc::show(std::make_tuple(write.run, write.leaves, write.weights), out);
  }
};

/// A write to a tree with `leaves` leaves: a batch in any order, or a run.
rc::Gen<Write> random_write(std::uint32_t leaves) {
  return rc::gen::exec([leaves] {
    Write write;
    write.run = *rc::gen::arbitrary<bool>();
    write.leaves =
        *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, leaves));
    if (write.run && !write.leaves.empty()) {
      const std::uint32_t first = write.leaves[0];
      write.leaves.resize(std::min<std::size_t>(write.leaves.size(), leaves - first));
      std::iota(write.leaves.begin(), write.leaves.end(), first);
    }
    write.weights = *rc::gen::container<std::vector<float>>(write.leaves.size(), random_weight());
    return write;
  });
}

void apply(WeightTree& tree, const Write& write) {
  if (write.run && !write.leaves.empty()) {
    tree.assign_run(write.leaves[0], write.weights);
  } else {
    tree.assign(write.leaves, write.weights);
  }
}

RC_GTEST_PROP(WeightTreeProperty, AnyHistoryEqualsWritingTheFinalWeightsOnce, ()) {
  const auto leaves = *rc::gen::inRange<std::uint32_t>(1, 2000);
  WeightTree tree(leaves);
  WeightModel model(leaves);
  for (const Write& write : *rc::gen::container<std::vector<Write>>(random_write(leaves))) {
    apply(tree, write);
    for (std::size_t i = 0; i < write.leaves.size(); ++i) {
      model.weights()[write.leaves[i]] = base::normal_or_0(write.weights[i]);
    }
  }
  WeightTree fresh(leaves);
  fresh.assign_run(0, model.weights());
  RC_ASSERT(tree.total() == fresh.total());
  RC_ASSERT(tree.min_positive() == model.min_positive());
  RC_ASSERT(tree.max() == model.max());
}

RC_GTEST_PROP(WeightTreeProperty, EveryDrawEndsOnAPositiveLeaf, ()) {
  const auto leaves = *rc::gen::inRange<std::uint32_t>(1, 2000);
  WeightTree tree(leaves);
  apply(tree, *random_write(leaves));
  apply(tree, *random_write(leaves));
  if (tree.total() > 0.0) {
    base::Random random(*rc::gen::arbitrary<std::uint64_t>());
    const Found found = find(tree, targets_for(tree.total(), 200, random));
    for (std::size_t i = 0; i < found.leaves.size(); ++i) {
      RC_ASSERT(found.leaves[i] < leaves);
      RC_ASSERT(found.weights[i] > 0.0F);
      RC_ASSERT(found.weights[i] == tree.weight(found.leaves[i]));
    }
    RC_ASSERT(std::is_sorted(found.leaves.begin(), found.leaves.end()));
  }
}

}  // namespace
}  // namespace reprise::tree
