#pragma once

#include "base/random.hpp"
#include "testing/test.hpp"
#include "tree/weight_tree.hpp"

namespace reprise::tree {

/// A WeightTree written as plain loops. Whole weights have exact sums, so tree and model agree bit
/// for bit.
class WeightModel {
 public:
  explicit WeightModel(std::size_t leaves) : weights_(leaves, 0.0F) {}

  std::vector<float>& weights() { return weights_; }
  const std::vector<float>& weights() const { return weights_; }

  double total() const {
    double sum = 0.0;
    for (const float weight : weights_) {
      sum += static_cast<double>(weight);
    }
    return sum;
  }
  float min_positive() const {
    float least = std::numeric_limits<float>::infinity();
    for (const float weight : weights_) {
      least = weight > 0.0F ? std::min(least, weight) : least;
    }
    return least;
  }
  float max() const {
    return weights_.empty() ? 0.0F : *std::max_element(weights_.begin(), weights_.end());
  }
  /// The leaves in which ascending targets fall.
  std::vector<std::uint32_t> find(std::span<const double> ascending) const {
    std::vector<std::uint32_t> found;
    std::size_t leaf = 0;
    double end = weights_.empty() ? 0.0 : static_cast<double>(weights_[0]);
    for (const double target : ascending) {
      while (target >= end) {
        end += static_cast<double>(weights_.at(++leaf));
      }
      found.push_back(static_cast<std::uint32_t>(leaf));
    }
    return found;
  }

 private:
  std::vector<float> weights_;
};

struct Found {
  std::vector<std::uint32_t> leaves;
  std::vector<float> weights;
};

inline Found find(const WeightTree& tree, std::vector<double> targets) {
  Found found{std::vector<std::uint32_t>(targets.size()), std::vector<float>(targets.size())};
  tree.find(targets, found.leaves, found.weights);
  return found;
}

/// Ascending targets: both ends of the range, and some between.
inline std::vector<double> targets_for(double total, std::size_t count, base::Random& random) {
  std::vector<double> targets{0.0, std::nextafter(total, 0.0)};
  for (std::size_t i = 0; i < count; ++i) {
    targets.push_back(random.uniform() * total);
    // With whole weights, this target is exactly where a leaf begins.
    targets.push_back(std::floor(targets.back()));
  }
  std::sort(targets.begin(), targets.end());
  return targets;
}

/// Expects tree and model to agree in all results.
inline void expect_equal(const WeightTree& tree, const WeightModel& model, base::Random& random,
                         std::size_t draws = 8) {
  ASSERT_EQ(tree.leaves(), model.weights().size());
  ASSERT_EQ(tree.total(), model.total());
  ASSERT_EQ(tree.min_positive(), model.min_positive());
  ASSERT_EQ(tree.max(), model.max());
  for (std::uint32_t leaf = 0; leaf < model.weights().size(); ++leaf) {
    ASSERT_EQ(tree.weight(leaf), model.weights()[leaf]) << "leaf " << leaf;
  }
  if (model.total() > 0.0) {
    const std::vector<double> targets = targets_for(model.total(), draws, random);
    const Found found = find(tree, targets);
    ASSERT_EQ(found.leaves, model.find(targets));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      ASSERT_EQ(found.weights[i], model.weights()[found.leaves[i]]);
    }
  }
}

/// Expects the tree to have the same bits as a new tree to which the weights are written once (I9).
inline void expect_as_if_fresh(const WeightTree& tree, base::Random& random) {
  std::vector<float> weights(tree.leaves());
  for (std::uint32_t leaf = 0; leaf < weights.size(); ++leaf) {
    weights[leaf] = tree.weight(leaf);
  }
  WeightTree fresh(weights.size());
  fresh.assign_run(0, weights);
  ASSERT_EQ(tree.total(), fresh.total());
  ASSERT_EQ(tree.min_positive(), fresh.min_positive());
  ASSERT_EQ(tree.max(), fresh.max());
  if (fresh.total() > 0.0) {
    const std::vector<double> targets = targets_for(fresh.total(), 1000, random);
    ASSERT_EQ(find(tree, targets).leaves, find(fresh, targets).leaves);
  }
}

/// A random whole weight up to `most`; 0 in at least one of three cases.
inline float whole_weight(base::Random& random, std::uint64_t most) {
  return random.next() % 3 == 0 ? 0.0F : static_cast<float>(random.next() % (most + 1));
}

}  // namespace reprise::tree
