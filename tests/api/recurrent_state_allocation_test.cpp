#include <reprise/reprise.hpp>

#include "../support/counting_new.hpp"
#include "../support/line.hpp"
#include "../support/recurrent_line.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace reprise::test {
namespace {

TEST(RecurrentState, AllocatesNothingInTheSteadyState) {
  for (const SequenceEnd end : {SequenceEnd::ZeroPad, SequenceEnd::Overlap}) {
    Options options = small_options();
    options.capacity_steps = 1000;
    options.shards = 2;
    options.chunk_steps = 32;
    options.window = Sequences{.length = 5, .period = 2, .burn_in = 2, .end = end};
    RecurrentLine line(options);
    Writer writer = line.replay.writer();
    Sampler sampler = line.replay.sampler();
    std::uint64_t number = 0;
    const auto cycle = [&] {
      for (int i = 0; i < 20; ++i, ++number) {
        line.append(writer, number, number % 50 == 49 ? End::Terminated : End::Continue);
      }
      ASSERT_TRUE(sampler.sample(64));
    };
    for (int i = 0; i < 200; ++i) {
      cycle();
    }
    const std::size_t before = allocations();
    for (int i = 0; i < 200; ++i) {
      cycle();
    }
    EXPECT_EQ(allocations(), before);
  }
}

}  // namespace
}  // namespace reprise::test
