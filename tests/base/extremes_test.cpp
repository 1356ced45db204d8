#include "base/extremes.hpp"

#include "testing/test.hpp"

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace reprise::base {
namespace {

RC_GTEST_PROP(Extremes, AreThoseOfTheStandardLibraryOverTheValuesAndTheStart,
              (const std::vector<int>& numbers, int start)) {
  const std::vector<float> values(numbers.begin(), numbers.end());
  std::vector<float> all = values;
  all.push_back(static_cast<float>(start));
  RC_ASSERT(extreme(values, all.back(), std::less<>()) ==
            *std::min_element(all.begin(), all.end()));
  RC_ASSERT(extreme(values, all.back(), std::greater<>()) ==
            *std::max_element(all.begin(), all.end()));
}

TEST(Extremes, AreFoundAtEveryPlace) {
  for (std::size_t size = 1; size < 40; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      std::vector<float> values(size, 2.0F);
      values[at] = 1.0F;
      EXPECT_EQ(extreme(values, 3.0F, std::less<>()), 1.0F) << at << " of " << size;
      values[at] = 4.0F;
      EXPECT_EQ(extreme(values, 3.0F, std::greater<>()), 4.0F) << at << " of " << size;
    }
  }
}

TEST(Extremes, OfNothingIsTheStart) {
  EXPECT_EQ(extreme({}, 7.0F, std::less<>()), 7.0F);
}

}  // namespace
}  // namespace reprise::base
