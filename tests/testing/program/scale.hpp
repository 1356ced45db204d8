#pragma once

#include <chrono>
#include <cstddef>

namespace reprise::test {

/// The factor for repetitions: the environment variable REPRISE_TEST_SCALE, 1 by default. Sanitizer
/// builds set a smaller one, soak tests a larger one.
double test_scale();

/// `count` times the scale, and at least `min_count`.
std::size_t scaled(std::size_t count, std::size_t min_count = 1);

/// The time limit of a test whose repetitions follow the scale. `limit` is the limit for scales up
/// to 1.
std::chrono::seconds scaled_limit(std::chrono::seconds limit);

}  // namespace reprise::test
