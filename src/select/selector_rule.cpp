#include <reprise/selector.hpp>

#include <cmath>
#include <cstring>

namespace reprise {

void SelectorRule::weigh(std::span<const float> priorities,
                         std::span<float> weights) const noexcept {
  std::memmove(weights.data(), priorities.data(), priorities.size_bytes());
}

bool SelectorRule::weighable(float priority) const noexcept {
  float weight = 0.0F;
  weigh(std::span(&priority, 1), std::span(&weight, 1));
  return std::isfinite(weight);
}

void SelectorRule::tend(const EachHalf& /*each_half*/) noexcept {}

}  // namespace reprise
