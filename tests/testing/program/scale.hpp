#pragma once

#include <chrono>
#include <cstddef>

namespace reprise::test {

/// How much of the repetitions to do: the environment variable REPRISE_TEST_SCALE, default 1.
/// Sanitizer builds run with less, soaks with more.
double test_scale();

/// `count` times the scale, at least `least`.
std::size_t scaled(std::size_t count, std::size_t least = 1);

/// For the guard of a test whose repetitions follow the scale: `limit` is enough up to a scale
/// of 1.
std::chrono::seconds scaled_limit(std::chrono::seconds limit);

}  // namespace reprise::test
