#include "scale.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

namespace reprise::test {

double test_scale() {
  const char* const text = std::getenv("REPRISE_TEST_SCALE");
  const double value = text == nullptr ? 1.0 : std::strtod(text, nullptr);
  return value > 0.0 ? value : 1.0;
}

std::size_t scaled(std::size_t count, std::size_t min_count) {
  return std::max(min_count, static_cast<std::size_t>(static_cast<double>(count) * test_scale()));
}

std::chrono::seconds scaled_limit(std::chrono::seconds limit) {
  const double seconds = static_cast<double>(limit.count()) * std::max(1.0, test_scale());
  return std::chrono::seconds(std::llround(seconds));
}

}  // namespace reprise::test
