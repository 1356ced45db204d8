#include "testing/laws/law_check.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

TEST(Recency, DrawsOldItemsHoweverUnlikely) {
  for (const std::size_t shards : {1U, 4U}) {
    Options options = LawCheck::options(shards);
    options.capacity_steps = 2'000;
    LawCheck check(law_named("RecencyOfFew"), options, 1);
    check.append_random(2'000);
    // The oldest item has 10^-91 times the probability of the youngest.
    EXPECT_TRUE(as_lvalue(check.line.replay.sampler())
                    .sample(2'000, {.draws = Draws::WithoutReplacement, .timeout = {}}))
        << "each item once";
  }
}

TEST(Recency, HasNoAlpha) {
  NumberedBuffer line(SmallOptions{.selectors = {Recency{}}});
  expect_refusal([&] { line.replay.selector().set_alpha(0.5F); }, {"set_alpha"});
  expect_refusal([&] { line.replay.selector().decay(0.5F); }, {"decay"});
}

TEST(Recency, RefusesPOutsideItsRange) {
  for (const float p : {-0.01F, 0.51F, 1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_refusal([p] { (void)Recency{.p = p}.make_selector_rule(); },
                   {"Recency::p is", "allowed: 0 to 0.5"});
  }
}

}  // namespace
}  // namespace reprise::test
