#pragma once

#include <cstddef>

namespace reprise::test {

/// How much of the repetitions to do: the environment variable REPRISE_TEST_SCALE, default 1.
/// Sanitizer builds run with less, soaks with more.
double test_scale();

/// `count` times the scale, at least `least`.
std::size_t scaled(std::size_t count, std::size_t least = 1);

}  // namespace reprise::test
