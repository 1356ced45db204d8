#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// The properties of an item by which selectors draw.
struct LawItem {
  float priority = 0.0F;
  /// A factor of the priority with the effect of all calls of `SelectorHandle::decay` on the
  /// weight.
  double decay_factor = 1.0;
  std::uint64_t age = 0;  ///< The number of the buffer's items that were decided after this one.
};

/// How a selector draws, by the documentation in its header.
struct SelectorLaw {
  std::string name;
  Selector selector;
  /// Returns numbers to which the items' probabilities are proportional; `items` are all items that
  /// can be drawn. For ordered selectors, the item of the highest number is drawn first.
  std::function<std::vector<double>(std::span<const LawItem>, double alpha)> weights;
  bool in_order = false;
  /// Allowed relative error of a reported probability, because weights are floats.
  double tolerance = 2e-7;
  /// The exponent, which `set_alpha` can change; below 0 if the selector has none.
  float alpha = -1.0F;
  double uniform = 0.0;  ///< The share of draws in which all items are equally likely.

  friend std::ostream& operator<<(std::ostream& out, const SelectorLaw& law) {
    return out << law.name;
  }
};

/// The laws of every selector of the library, and of two selectors of a user's own.
[[nodiscard]] const std::vector<SelectorLaw>& selector_laws();
/// The laws of selectors that draw by chance.
[[nodiscard]] std::vector<SelectorLaw> random_selector_laws();
/// The law of a selector; throws if there is none of this name.
[[nodiscard]] const SelectorLaw& law_named(const std::string& name);

/// The probability of each set of n items that draws without replacement give: each draw is by
/// weight, among the items that are left. The index of a set has bit i if item i is in it.
[[nodiscard]] std::vector<double> subset_probabilities(std::span<const double> weights,
                                                       std::size_t n);

}  // namespace reprise::test
