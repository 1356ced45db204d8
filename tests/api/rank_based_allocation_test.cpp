#include <reprise/reprise.hpp>

#include "../support/counting_new.hpp"
#include "../support/line.hpp"
#include "../support/rng.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace reprise::test {
namespace {

TEST(RankBased, AllocatesNothingInTheSteadyStateAlsoWhenBucketsAreCutAnew) {
  Options options = small_options();
  options.capacity_steps = 2000;
  options.shards = 3;
  options.chunk_steps = 32;
  options.selectors = {RankBased{}};
  Line line(options);
  Writer writer = line.replay.writer();
  Sampler sampler = line.replay.sampler({.seed = 1});
  Rng rng(2);
  std::vector<float> priorities(128);
  std::uint64_t number = 0;
  float scale = 1.0F;
  const auto cycle = [&] {
    for (int i = 0; i < 16; ++i, ++number) {
      line.append(writer, number, number % 50 == 49 ? End::Terminated : End::Continue);
    }
    const SampleResult batch = sampler.sample(priorities.size());
    for (float& priority : priorities) {
      priority = scale * static_cast<float>(rng.unit());
    }
    scale *= 0.98F;  // Nothing stays where it was.
    line.replay.update_priorities(batch->keys(), priorities);
  };
  for (int i = 0; i < 300; ++i) {
    cycle();
  }
  const std::size_t before = allocations();
  for (int i = 0; i < 300; ++i) {
    cycle();
  }
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace reprise::test
