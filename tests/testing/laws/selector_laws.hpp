#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// What a selector knows about an item.
struct LawItem {
  float priority = 0.0F;
  /// The factor of its priority after `SelectorHandle::decay`, which scales weights.
  double decayed = 1.0;
  std::uint64_t age = 0;  ///< Items of the buffer that were decided after it.
};

/// How a selector draws, as its header says.
struct SelectorLaw {
  std::string name;
  Selector selector;
  /// The numbers to which the items' probabilities are proportional; `items` are all that can be
  /// drawn. For ordered selectors, the highest number is drawn first.
  std::function<std::vector<double>(std::span<const LawItem>, double alpha)> weights;
  bool in_order = false;
  /// Relative error of a reported probability, because weights are floats.
  double tolerance = 2e-7;
  float alpha = -1.0F;   ///< The exponent that `set_alpha` changes; below 0: none.
  double uniform = 0.0;  ///< The share of draws in which all items are equally likely.

  friend std::ostream& operator<<(std::ostream& out, const SelectorLaw& law) {
    return out << law.name;
  }
};

/// The laws of every selector of the library and of two own selectors.
[[nodiscard]] const std::vector<SelectorLaw>& selector_laws();
/// The laws of selectors that draw by chance.
[[nodiscard]] std::vector<SelectorLaw> laws_of_chance();
/// The law of a selector; throws if there is none of this name.
[[nodiscard]] const SelectorLaw& law_named(const std::string& name);

/// The probability of each subset of n items, by the bits of the subset, if draws follow each
/// other, each by weight among the items that are left.
[[nodiscard]] std::vector<double> subset_probabilities(std::span<const double> weights,
                                                       std::size_t n);

}  // namespace reprise::test
