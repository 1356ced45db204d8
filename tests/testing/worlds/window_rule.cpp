#include "window_rule.hpp"

#include <algorithm>

namespace reprise::test {

std::uint32_t WindowRule::full_length() const noexcept {
  const Sequences* const kind = sequences();
  return kind != nullptr ? kind->burn_in + kind->length
                         : std::get_if<Transitions>(&window_)->n_step;
}

std::uint32_t WindowRule::length_at(std::uint64_t position, std::uint64_t steps,
                                    EpisodeState state) const noexcept {
  const std::uint64_t left = steps - std::min(position, steps);
  const bool whole = left >= full_length();
  const auto length = static_cast<std::uint32_t>(whole ? full_length() : left);
  if (!whole && (state == EpisodeState::Open || streams())) {
    return 0;
  }
  const Sequences* const kind = sequences();
  if (kind == nullptr) {
    return length;
  }
  if (length <= kind->burn_in) {
    return 0;
  }
  const bool on_period = position % kind->period == 0;
  const bool overlaps = kind->end == SequenceEnd::Overlap && state != EpisodeState::Open;
  const bool shorter = kind->end == SequenceEnd::ZeroPad;
  const bool begins =
      whole ? on_period || (overlaps && left == full_length() && state == EpisodeState::Ended)
            : (shorter && on_period) || (overlaps && position == 0);
  return begins ? length : 0;
}

std::map<std::uint64_t, std::uint32_t> WindowRule::items(std::uint64_t steps,
                                                         EpisodeState state) const {
  std::map<std::uint64_t, std::uint32_t> items;
  for (std::uint64_t p = 0; p < steps; ++p) {
    if (const std::uint32_t length = length_at(p, steps, state); length != 0) {
      items[p] = length;
    }
  }
  return items;
}

}  // namespace reprise::test
