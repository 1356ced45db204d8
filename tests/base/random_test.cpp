#include "base/random.hpp"

#include "testing/test.hpp"

namespace reprise::base {
namespace {

TEST(Random, GivesThePublishedSequence) {
  Random random(0);
  for (const std::uint64_t expected :
       {5987356902031041503U, 7051070477665621255U, 6633766593972829180U, 211316841551650330U,
        9136120204379184874U, 379361710973160858U, 15813423377499357806U}) {
    EXPECT_EQ(random.next(), expected);
  }
}

TEST(Random, ACopyContinuesWithTheSameNumbers) {
  Random random(42);
  random.next();
  Random copy = random;
  EXPECT_EQ(copy, random);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(copy.next(), random.next());
  }
}

TEST(Random, UniformStaysBelowOneAndHasTheRightMoments) {
  constexpr std::uint64_t kSeed = 3;
  constexpr int kDraws = 1'000'000;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Random random(kSeed);
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.uniform();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    squares += x * x;
  }
  // Within five standard deviations of the means of x and x^2.
  EXPECT_NEAR(sum / kDraws, 0.5, 5.0 * std::sqrt(1.0 / 12.0 / kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0 / 3.0, 5.0 * std::sqrt(4.0 / 45.0 / kDraws));
}

}  // namespace
}  // namespace reprise::base
