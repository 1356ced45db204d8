#include "testing/laws/law_check.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

TEST(Mixture, IsUniformWhileNoPriorityIsAboveZero) {
  for (const char* const name : {"Mixture", "MixtureByPriority", "MixtureOfAlike"}) {
    for (const std::size_t shards : {1U, 4U}) {
      SCOPED_TRACE(testing::Message() << name << ", shards " << shards);
      LawCheck check(law_named(name), shards);
      check.append(std::vector<float>(70));
      check.draw(500);
      check.set_priority(20, 1.0F);
      check.draw(500);
    }
  }
}

TEST(Mixture, BoundsImportanceWeightsHoweverFarApartPrioritiesAre) {
  NumberedBuffer line(SmallOptions{.selectors = {Mixture{.uniform = 0.0F, .alpha = 1.0F}}});
  line.append(0, 1e-37F);
  line.append(1, 3e38F);
  Sampler sampler = line.replay.sampler();
  const SampleResult batch =
      require_batch(sampler.sample(2, {.beta = 1.0F, .normalise = Normalise::ByBuffer}));
  for (const float weight : batch->weights()) {
    EXPECT_GT(weight, 0.0F);
    EXPECT_LT(weight, 1e-30F) << "beside the weight of the other item";
  }
}

TEST(Mixture, ReportsProbabilitiesOfItemsThatWeighAlmostNothing) {
  NumberedBuffer line(SmallOptions{.selectors = {Mixture{.uniform = 0.0F, .alpha = 8.0F}}});
  line.append(0, 1000.0F);
  line.append(1, 0.001F);
  line.append(2, 0.001F);
  Sampler sampler = line.replay.sampler();
  const SampleResult batch =
      require_batch(sampler.sample(3, {.beta = 1.0F, .draws = Draws::WithoutReplacement}));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_GT(batch->probabilities()[i], 0.0F);
    EXPECT_LE(batch->probabilities()[i], 1.0F);
    EXPECT_TRUE(std::isfinite(batch->weights()[i]));
  }
}

TEST(Mixture, RefusesOptionsByName) {
  for (const float uniform : {-0.1F, 1.1F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_refusal([&] { (void)Mixture{.uniform = uniform}.make_selector_rule(); },
                   {"Mixture::uniform is", "allowed: 0 to 1"});
  }
  expect_refusal([] { (void)Mixture{.alpha = 9.0F}.make_selector_rule(); },
                 {"Mixture::alpha is 9", "allowed: 0 to 8"});
}

}  // namespace
}  // namespace reprise::test
