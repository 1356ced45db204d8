#pragma once

#include <reprise/reprise.hpp>

#include "removers.hpp"

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace reprise::test {

/// With what probability, or in which order, a selector draws.
enum class Drawing : std::uint8_t { ByPriority, ByRank, Alike, Oldest, Youngest, Highest, Lowest };

[[nodiscard]] constexpr bool in_order(Drawing drawing) {
  return drawing >= Drawing::Oldest;
}

template <class Strategy>
struct NamedStrategy {
  std::string name;
  Strategy strategy;

  friend std::ostream& operator<<(std::ostream& out, const NamedStrategy& named) {
    return out << named.name;
  }
};

struct NamedSelector : NamedStrategy<Selector> {
  Drawing drawing;
};
using NamedWindow = NamedStrategy<Window>;
using NamedLimiter = NamedStrategy<RateLimiter>;

/// Every selector of the library. Priorities are whole and weigh what they are, so that
/// probabilities can be exact; an item without one has priority 1.
inline std::vector<NamedSelector> all_selectors() {
  const auto one = InitialPriority::Constant;
  return {
      {{"Proportional", Proportional{.alpha = 1.0F, .epsilon = 0.0F, .initial = one}},
       Drawing::ByPriority},
      {{"RankBased", RankBased{.initial = one}}, Drawing::ByRank},
      {{"Uniform", Uniform{}}, Drawing::Alike},
      {{"FifoSelector", Fifo{}}, Drawing::Oldest},
      {{"Lifo", Lifo{}}, Drawing::Youngest},
      {{"MaxHeap", MaxHeap{.initial = one}}, Drawing::Highest},
      {{"MinHeap", MinHeap{.initial = one}}, Drawing::Lowest},
  };
}

inline std::vector<NamedWindow> all_windows() {
  const auto sequences = [](std::uint32_t length, std::uint32_t period, std::uint32_t burn_in,
                            SequenceEnd end) {
    return Sequences{.length = length, .period = period, .burn_in = burn_in, .end = end};
  };
  return {
      {"Transitions", Transitions{.n_step = 3, .frame_stack = 2, .stack_start = StackStart::Zeros}},
      {"SequencesTruncated", sequences(4, 3, 0, SequenceEnd::Truncate)},
      {"SequencesPadded", sequences(4, 2, 1, SequenceEnd::ZeroPad)},
      {"SequencesDropped", sequences(3, 5, 0, SequenceEnd::Drop)},
      {"SequencesOverlapping", sequences(3, 4, 2, SequenceEnd::Overlap)},
  };
}

inline std::vector<NamedLimiter> all_limiters() {
  return {
      {"Unlimited", Unlimited{}},
      {"MinSize", MinSize{.items = 7}},
      {"Queue", Queue{.size = 9}},
      {"SampleToInsertRatio",
       SampleToInsertRatio{.samples_per_insert = 0.5, .min_size = 7, .error_buffer = 15.0}},
  };
}

}  // namespace reprise::test
