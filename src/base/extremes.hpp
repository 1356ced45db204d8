#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace reprise::base {

/// The best of `values` and `start`, where `better` compares two. The loop takes eight values at a
/// time, so that compilers use vectors and no comparison waits for the one before.
template <class Better>
[[nodiscard]] float extreme(std::span<const float> values, float start,
                            const Better& better) noexcept {
  std::array<float, 8> best;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled next
  best.fill(start);
  std::size_t i = 0;
  for (; i + best.size() <= values.size(); i += best.size()) {
    for (std::size_t lane = 0; lane < best.size(); ++lane) {
      const float value = values[i + lane];
      best[lane] = better(value, best[lane]) ? value : best[lane];
    }
  }
  for (; i < values.size(); ++i) {
    best[0] = better(values[i], best[0]) ? values[i] : best[0];
  }
  for (const float other : best) {
    start = better(other, start) ? other : start;
  }
  return start;
}

}  // namespace reprise::base
