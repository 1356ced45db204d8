#include "selector_laws.hpp"

#include "own_selectors.hpp"
#include "testing/statistics/ranks.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

using Items = std::span<const LawItem>;
using Weights = std::vector<double>;

/// Makes a law in which an item's weight does not depend on other items.
template <class WeightOf>
auto per_item_law(WeightOf weight_of) {
  return [weight_of](Items items, double alpha) {
    Weights weights;
    for (const LawItem& item : items) {
      weights.push_back(weight_of(item, alpha));
    }
    return weights;
  };
}

double priority_of(const LawItem& item) {
  return double{item.priority} * item.decay_factor;
}

/// Makes the law of a mixture: a share `uniform` of the draws is uniform, the others are by
/// priority^alpha.
auto mixture_weights(double uniform) {
  return [uniform](Items items, double alpha) {
    Weights weights;
    if (items.empty()) {
      return weights;
    }
    for (const LawItem& item : items) {
      const double priority = priority_of(item);
      weights.push_back(priority > 0.0 ? std::pow(priority, alpha) : 0.0);
    }
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    const double alike = (total > 0.0 ? uniform : 1.0) / static_cast<double>(items.size());
    for (double& weight : weights) {
      weight = alike + (total > 0.0 ? (1.0 - uniform) * weight / total : 0.0);
    }
    return weights;
  };
}

Weights rank_weights(Items items, double alpha) {
  std::vector<float> priorities;
  for (const LawItem& item : items) {
    priorities.push_back(item.priority);
  }
  return rank_probabilities(priorities, alpha);
}

SelectorLaw ordered_law(std::string name, Selector selector, double (*first)(const LawItem&)) {
  return {.name = std::move(name),
          .selector = std::move(selector),
          .weights =
              per_item_law([first](const LawItem& item, double /*alpha*/) { return first(item); }),
          .in_order = true};
}

SelectorLaw recency_law(std::string name, float p) {
  return {.name = std::move(name),
          .selector = Recency{.p = p},
          .weights = per_item_law([p](const LawItem& item, double /*alpha*/) {
            return std::pow(1.0 - double{p}, static_cast<double>(item.age));
          })};
}

SelectorLaw mixture_law(std::string name, float uniform, float alpha) {
  return {.name = std::move(name),
          .selector = Mixture{.uniform = uniform, .alpha = alpha},
          .weights = mixture_weights(double{uniform}),
          .tolerance = 1e-6,
          .alpha = alpha,
          .uniform = double{uniform}};
}

std::vector<SelectorLaw> all_laws() {
  const auto raw = [](const LawItem& item, double alpha) {
    return priority_of(item) > 0.0 ? std::pow(priority_of(item), alpha) : 0.0;
  };
  const auto highest = [](const LawItem& item) { return double{item.priority}; };
  return {
      {.name = "Proportional",
       .selector = Proportional{.alpha = 1.0F, .epsilon = 0.0F},
       .weights = per_item_law(raw),
       .tolerance = 1e-12,
       .alpha = 1.0F},
      {.name = "ProportionalToAPower",
       .selector = Proportional{.alpha = 0.6F, .epsilon = 0.01F},
       .weights = per_item_law([](const LawItem& item, double alpha) {
         return std::pow((double{item.priority} + 0.01) * item.decay_factor, alpha);
       }),
       .tolerance = 1e-6,
       .alpha = 0.6F},
      {.name = "LossAdjusted",
       .selector = LossAdjusted{.alpha = 0.4F},
       .weights = per_item_law([](const LawItem& item, double alpha) {
         return std::pow(std::max(double{item.priority}, 1.0) * item.decay_factor, alpha);
       }),
       .tolerance = 1e-6,
       .alpha = 0.4F},
      {.name = "RankBased",
       .selector = RankBased{.alpha = 0.7F},
       .weights = [](Items items, double /*alpha*/) { return rank_weights(items, 0.7); },
       .tolerance = 1e-6},
      {.name = "Uniform",
       .selector = Uniform{},
       .weights = per_item_law([](const LawItem& /*item*/, double /*alpha*/) { return 1.0; }),
       .tolerance = 1e-12},
      recency_law("Recency", 0.02F),
      recency_law("RecencyOfFew", 0.1F),
      recency_law("RecencyOfNone", 0.0F),
      mixture_law("Mixture", 0.25F, 0.6F),
      mixture_law("MixtureByPriority", 0.0F, 1.0F),
      mixture_law("MixtureOfAlike", 1.0F, 1.0F),
      {.name = "OwnPower",
       .selector = CustomPower{},
       .weights = per_item_law(raw),
       .tolerance = 1e-6,
       .alpha = 1.0F},
      ordered_law("Fifo", Fifo{},
                  [](const LawItem& item) { return static_cast<double>(item.age); }),
      ordered_law("Lifo", Lifo{},
                  [](const LawItem& item) { return -static_cast<double>(item.age); }),
      ordered_law("MaxHeap", MaxHeap{}, highest),
      ordered_law("MinHeap", MinHeap{}, [](const LawItem& item) { return -double{item.priority}; }),
      ordered_law("OwnHighest", CustomHighest{}, highest),
  };
}

}  // namespace

const std::vector<SelectorLaw>& selector_laws() {
  static const std::vector<SelectorLaw> kLaws = all_laws();
  return kLaws;
}

std::vector<SelectorLaw> random_selector_laws() {
  std::vector<SelectorLaw> laws = selector_laws();
  std::erase_if(laws, [](const SelectorLaw& law) { return law.in_order; });
  return laws;
}

const SelectorLaw& law_named(const std::string& name) {
  const auto found = std::ranges::find(selector_laws(), name, &SelectorLaw::name);
  if (found == selector_laws().end()) {
    throw std::invalid_argument("no law of " + name);
  }
  return *found;
}

std::vector<double> subset_probabilities(std::span<const double> weights, std::size_t n) {
  const std::size_t subsets = std::size_t{1} << weights.size();
  // The probability that the draws so far give each set. Subsets of a set come before the set.
  std::vector<double> reached(subsets);
  reached[0] = 1.0;
  for (std::size_t set = 0; set < subsets; ++set) {
    double left = 0.0;
    std::size_t size = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const bool drawn = (set >> i & 1U) != 0;
      left += drawn ? 0.0 : weights[i];
      size += drawn ? 1U : 0U;
    }
    for (std::size_t i = 0; i < weights.size() && size < n; ++i) {
      if ((set >> i & 1U) == 0) {
        reached[set | std::size_t{1} << i] += reached[set] * weights[i] / left;
      }
    }
    reached[set] = size == n ? reached[set] : 0.0;
  }
  return reached;
}

}  // namespace reprise::test
