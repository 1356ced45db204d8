#include "window_rule.hpp"

#include "episode.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <variant>
#include <vector>

namespace stress {

std::uint32_t WindowRule::reach() const noexcept {
  const reprise::Sequences* const kind = sequences();
  return kind != nullptr ? kind->burn_in + kind->length
                         : std::get_if<reprise::Transitions>(&window_)->n_step;
}

std::uint32_t WindowRule::length_at(std::uint32_t position, const Episode& episode) const noexcept {
  using reprise::SequenceEnd;
  const std::uint32_t left = episode.length - position;
  const std::uint32_t length = std::min(reach(), left);
  const reprise::Sequences* const kind = sequences();
  if (kind == nullptr) {
    return length;
  }
  if (length <= kind->burn_in) {
    return 0;
  }
  const bool on_period = position % kind->period == 0;
  const bool overlaps = kind->end == SequenceEnd::Overlap;
  const bool shorter = kind->end == SequenceEnd::Truncate || kind->end == SequenceEnd::ZeroPad;
  bool begins = false;
  if (left >= reach()) {
    begins = on_period || (overlaps && left == reach() && episode.ends_by_commit());
  } else {
    begins = (shorter && on_period) || (overlaps && position == 0);
  }
  return begins ? length : 0;
}

void WindowRule::decided(std::uint32_t steps, bool ends,
                         std::vector<std::uint32_t>& positions) const {
  positions.clear();
  const std::uint32_t first = steps >= reach() ? steps - reach() : 0;
  if (!ends && steps < reach()) {
    return;
  }
  // An open episode has no known end.
  const Episode episode{.length = ends ? steps : std::numeric_limits<std::uint32_t>::max()};
  for (std::uint32_t p = first; p < (ends ? steps : first + 1); ++p) {
    if (length_at(p, episode) != 0) {
      positions.push_back(p);
    }
  }
}

}  // namespace stress
