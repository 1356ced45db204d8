#pragma once

#include "testing/library.hpp"

namespace reprise::test {

/// The rule for the probability or the order in which a selector draws items.
enum class DrawRule : std::uint8_t {
  Unknown,     ///< Only what holds for every selector is checked.
  ByPriority,  ///< In proportion to the priority to the power of alpha.
  ByRank,      ///< By rank: items of higher priority come more often.
  Uniform,     ///< Every item with the same probability.
  ByAge,       ///< Younger items come more often.
  Clipped,     ///< By priority, where priorities below 1 count as 1.
  Mixed,       ///< A share of the draws is uniform, the others are by priority.
  Oldest,      ///< The item that was decided first comes first.
  Youngest,
  Highest,  ///< The highest priority comes first.
  Lowest
};

[[nodiscard]] constexpr bool in_order(DrawRule draw_rule) noexcept {
  return draw_rule >= DrawRule::Oldest;
}

/// How the selector of the library with this name draws.
[[nodiscard]] inline DrawRule draw_rule_of(std::string_view selector) {
  constexpr std::pair<std::string_view, DrawRule> kKnown[] = {
      {"Proportional", DrawRule::ByPriority}, {"RankBased", DrawRule::ByRank},
      {"Uniform", DrawRule::Uniform},         {"Fifo", DrawRule::Oldest},
      {"Lifo", DrawRule::Youngest},           {"MaxHeap", DrawRule::Highest},
      {"MinHeap", DrawRule::Lowest},          {"Recency", DrawRule::ByAge},
      {"LossAdjusted", DrawRule::Clipped},    {"Mixture", DrawRule::Mixed}};
  const auto* const found =
      std::ranges::find(kKnown, selector, [](const auto& known) { return known.first; });
  return found == std::end(kKnown) ? DrawRule::Unknown : found->second;
}

}  // namespace reprise::test
