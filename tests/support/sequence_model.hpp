#pragma once

#include <reprise/window.hpp>

#include <cstdint>
#include <map>
#include <utility>

namespace reprise::test {

/// What the documentation of `Sequences` says of the items of one episode, episode at hand as a
/// whole: by position of the first step, how many steps the item has.
///
/// `cut_off`: the episode was not ended by a commit.
inline std::map<std::uint64_t, std::uint32_t> sequences_of(const Sequences& window,
                                                           std::uint64_t steps, bool cut_off) {
  const std::uint64_t whole = window.burn_in + window.length;
  const auto enough = [&](std::uint64_t length) { return length > window.burn_in; };
  std::map<std::uint64_t, std::uint32_t> items;
  for (std::uint64_t first = 0; first < steps; first += window.period) {
    const std::uint64_t left = steps - first;
    const bool shorter = window.end == SequenceEnd::Truncate || window.end == SequenceEnd::ZeroPad;
    if (left >= whole) {
      items[first] = static_cast<std::uint32_t>(whole);
    } else if (shorter && enough(left)) {
      items[first] = static_cast<std::uint32_t>(left);
    }
  }
  if (window.end == SequenceEnd::Overlap && enough(steps)) {
    if (steps < whole) {
      items[0] = static_cast<std::uint32_t>(steps);
    } else if (!cut_off) {
      items[steps - whole] = static_cast<std::uint32_t>(whole);
    }
  }
  return items;
}

}  // namespace reprise::test
