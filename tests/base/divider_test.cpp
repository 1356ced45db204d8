#include "base/divider.hpp"

#include "testing/test.hpp"

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace reprise::base {
namespace {

constexpr std::uint32_t kLargest = std::numeric_limits<std::uint32_t>::max();

void expect_like_division(std::uint32_t n, std::uint32_t d) {
  const Divider divider(d);
  const std::uint32_t quotient = divider.quotient(n);
  ASSERT_EQ(quotient, n / d) << n << " / " << d;
  ASSERT_EQ(divider.remainder(n, quotient), n % d) << n << " % " << d;
}

TEST(Divider, DividesLikeTheOperatorWhereRoundingIsTightest) {
  std::vector<std::uint32_t> divisors = {2, 3, 5, 7, 641, 1000, 6700417, kLargest - 1, kLargest};
  for (std::uint32_t bit = 2; bit < 32; ++bit) {
    const std::uint32_t power = 1U << bit;
    divisors.insert(divisors.end(), {power - 1, power, power + 1});
  }
  for (const std::uint32_t d : divisors) {
    // The largest multiple of d, near which an error of rounding would show.
    const std::uint32_t last = kLargest / d * d;
    for (const std::uint32_t n : {0U, 1U, d - 1, d, last - 1, last, kLargest - 1, kLargest}) {
      expect_like_division(n, d);
    }
  }
}

RC_GTEST_PROP(Divider, DividesLikeTheOperatorAnywhere, ()) {
  const auto n = *rc::gen::arbitrary<std::uint32_t>();
  const auto bits = *rc::gen::inRange(2, 33);
  const auto d = *rc::gen::inRange<std::uint32_t>(2, kLargest >> (32 - bits));
  expect_like_division(n, d);
}

}  // namespace
}  // namespace reprise::base
