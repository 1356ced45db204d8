#pragma once

#include <reprise/reprise.hpp>

#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace reprise::test {

/// What a selector knows of an item.
struct LawItem {
  float priority = 0.0F;
  double decayed = 1.0;   ///< The priority is scaled by it: `SelectorHandle::decay` scales weights.
  std::uint64_t age = 0;  ///< Items of the buffer that were decided after it.
};

/// How a selector draws, as its header says.
struct SelectorLaw {
  std::string name;
  Selector selector;
  /// What the probabilities of these items, which are all that can be drawn, are in proportion to.
  /// In order: the highest is drawn first.
  std::function<std::vector<double>(std::span<const LawItem>, double alpha)> weights;
  bool in_order = false;
  /// Relative error of a reported probability: floats hold weights.
  double tolerance = 2e-7;
  float alpha = -1.0F;   ///< The exponent that `set_alpha` changes; below 0: there is none.
  double uniform = 0.0;  ///< The share of draws in which all items are alike.

  friend std::ostream& operator<<(std::ostream& out, const SelectorLaw& law) {
    return out << law.name;
  }
};

/// Every selector of the library and two of a user's own.
[[nodiscard]] const std::vector<SelectorLaw>& selector_laws();
/// Those that draw by chance.
[[nodiscard]] std::vector<SelectorLaw> laws_of_chance();
/// Throws if there is none.
[[nodiscard]] const SelectorLaw& law_named(const std::string& name);

/// The probability that successive draws with these weights, each from what is left, give each
/// subset of n items, by the bits of the subset.
[[nodiscard]] std::vector<double> subset_probabilities(std::span<const double> weights,
                                                       std::size_t n);

}  // namespace reprise::test
