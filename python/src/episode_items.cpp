#include "episode_items.hpp"

#include <algorithm>
#include <variant>

namespace reprise::python {
namespace {

bool begins_item(const Sequences& window, std::size_t position, std::size_t steps) {
  const std::size_t whole = std::size_t{window.burn_in} + window.length;
  const std::size_t length = std::min(whole, steps - position);
  if (length <= window.burn_in) {
    return false;
  }
  const bool last = position + whole >= steps;
  if (last && window.end == SequenceEnd::Overlap && (length == whole || position == 0)) {
    return true;
  }
  const bool shorter = window.end == SequenceEnd::Truncate || window.end == SequenceEnd::ZeroPad;
  return (length == whole || shorter) && position % window.period == 0;
}

}  // namespace

std::size_t episode_items(const Window& window, std::size_t steps, End end) {
  const auto* const sequences = std::get_if<Sequences>(&window);
  const std::size_t span = sequences == nullptr
                               ? std::get<Transitions>(window).n_step
                               : std::size_t{sequences->burn_in} + sequences->length;
  const std::size_t decided = end != End::Continue ? steps : steps - std::min(steps, span - 1);
  if (sequences == nullptr) {
    return decided;
  }
  std::size_t items = 0;
  // An episode that goes on is as one that ends later.
  const std::size_t until = end != End::Continue ? steps : steps + span;
  for (std::size_t position = 0; position < decided; ++position) {
    items += begins_item(*sequences, position, until) ? 1U : 0U;
  }
  return items;
}

std::uint64_t item_every(const Window& window) {
  const auto* const sequences = std::get_if<Sequences>(&window);
  // Which step an overlapping one begins with is not known before the episode ends.
  return sequences == nullptr || sequences->end == SequenceEnd::Overlap ? 1 : sequences->period;
}

}  // namespace reprise::python
