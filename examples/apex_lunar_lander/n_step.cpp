#include "n_step.hpp"

#include <cmath>

namespace apex {

std::span<const float> OpenSteps::decide(std::size_t completing, float next_value) {
  priorities_.resize(completing);
  float value = next_value;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    value = steps_[i].reward + discount_ * value;
    if (i < completing) {
      priorities_[i] = std::abs(value - steps_[i].value);
    }
  }
  steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(completing));
  return priorities_;
}

}  // namespace apex
