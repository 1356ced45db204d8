#include "promises.hpp"

#include <algorithm>
#include <variant>

namespace reprise::test {
namespace {

std::map<std::uint64_t, std::uint32_t> sequences_of(const Sequences& window, std::uint64_t steps,
                                                    bool cut_off) {
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

}  // namespace

std::map<std::uint64_t, std::uint32_t> items_of(const Window& window, std::uint64_t steps,
                                                bool ended, bool cut_off) {
  if (const auto* const kind = std::get_if<Sequences>(&window)) {
    Sequences so_far = *kind;
    so_far.end = ended ? kind->end : SequenceEnd::Drop;  // What is whole does not wait for the end.
    return sequences_of(so_far, steps, cut_off);
  }
  const std::uint64_t n = std::get<Transitions>(window).n_step;
  std::map<std::uint64_t, std::uint32_t> items;
  for (std::uint64_t p = 0; p < steps && (ended || p + n <= steps); ++p) {
    items[p] = static_cast<std::uint32_t>(std::min(n, steps - p));
  }
  return items;
}

std::optional<bool> lets_sample(const RateLimiter& limiter, const Counted& seen, std::uint64_t n) {
  if (std::holds_alternative<Unlimited>(limiter)) {
    return true;
  }
  if (std::holds_alternative<Queue>(limiter)) {
    return seen.items >= n;
  }
  if (const auto* const least = std::get_if<MinSize>(&limiter)) {
    return seen.counted >= least->items;
  }
  const auto& ratio = std::get<SampleToInsertRatio>(limiter);
  if (seen.counted < ratio.min_size) {
    return false;
  }
  const auto within = [&](std::uint64_t inserts) {
    const auto due = static_cast<double>(inserts) - static_cast<double>(ratio.min_size);
    return static_cast<double>(seen.samples + n) - ratio.samples_per_insert * due <=
           ratio.error_buffer;
  };
  if (within(seen.inserts)) {
    return true;
  }
  return within(seen.inserts + seen.booked) ? std::nullopt : std::optional(false);
}

}  // namespace reprise::test
