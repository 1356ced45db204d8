#include "testing/fixtures/scratch_directory.hpp"
#include "testing/statistics/chi_square.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

const SampleOptions kEpoch{.draws = Draws::Epoch, .timeout = 0ns};

/// The numbers of the items in the sampler's next batch of n items.
std::vector<std::uint64_t> draw(const NumberedBuffer& line, Sampler& sampler, std::size_t n) {
  const SampleResult batch = sampler.sample(n, kEpoch);
  EXPECT_TRUE(batch) << batch.status().message();
  const auto ids = batch ? batch->now(line.id) : std::span<const std::uint64_t>();
  return {ids.begin(), ids.end()};
}

TEST(Epoch, DrawsEverySequenceOfItemsEquallyOftenWhateverTheirWeights) {
  NumberedBuffer line;
  line.append_many(0, 4, [](std::uint64_t i) { return static_cast<float>(i * i + 1); });
  Sampler sampler = line.replay.sampler({.seed = 11});
  std::vector<std::uint64_t> counts(256);
  std::vector<double> expected(256);
  std::array<std::uint64_t, 4> sequence{0, 1, 2, 3};
  const auto code = [](const auto& ids) {
    return ((ids[0] * 4 + ids[1]) * 4 + ids[2]) * 4 + ids[3];
  };
  do {
    expected[code(sequence)] = 1.0 / 24.0;
  } while (std::ranges::next_permutation(sequence).found);
  for (int pass = 0; pass < 24000; ++pass) {
    const SampleResult batch = require_batch(sampler.sample(4, kEpoch));
    ++counts[code(batch->now(line.id))];
  }
  EXPECT_LT(std::abs(chi_square_z(counts, expected)), kMaxZ);
}

TEST(Epoch, OfManyItemsDrawsEachOnce) {
  constexpr std::size_t kItems = 100'000;
  NumberedBuffer line(SmallOptions{.capacity_steps = kItems, .chunk_steps = 64});
  line.append_many(0, kItems);
  Sampler sampler = line.replay.sampler({.parallel_gather_bytes = kNoParallelGather});
  EXPECT_EQ(sorted(draw(line, sampler, kItems)), number_range(0, kItems));
}

TEST(Epoch, OfALoadedBufferBeginsANewPass) {
  const ScratchDirectory directory;
  NumberedBuffer line(SmallOptions{.shards = 2});
  line.append_many(0, 20);
  Sampler sampler = line.replay.sampler();
  ASSERT_EQ(draw(line, sampler, 25).size(), 25U);
  (void)line.replay.save(directory.path(), {.samplers = {&sampler}});
  ReplayBuffer loaded = ReplayBuffer::load(directory.path()).buffer;
  Sampler resumed = loaded.sampler({.resume = 0});
  const SampleResult batch = require_batch(resumed.sample(20, kEpoch));
  EXPECT_EQ(batch.status().passes, 1U);
  EXPECT_EQ(std::set(batch->positions().begin(), batch->positions().end()).size(), 20U);
}

TEST(Epoch, IsRefusedWhereSomethingElseDecidesHowOftenItemsCome) {
  Options limited = SmallOptions{.max_times_sampled = 2};
  Options first_in = SmallOptions{.selectors = {Fifo{}}};
  for (const Options& options : {limited, first_in}) {
    NumberedBuffer line(options);
    line.append_many(0, 9);
    Sampler sampler = line.replay.sampler();
    expect_refusal([&] { (void)sampler.sample(3, kEpoch); },
                   {"Epoch", "order", "max_times_sampled"});
    EXPECT_TRUE(sampler.sample(3, kNoWait));
  }
}

TEST(Epoch, APrefetcherTellsThePassesOfEachBatch) {
  NumberedBuffer line;
  line.append_many(0, 6);
  Sampler ahead = line.replay.sampler();
  Prefetcher prefetcher(ahead, 3, {.draws = Draws::Epoch}, 4);
  const std::jthread thread([&](const std::stop_token& stop) { prefetcher.run(stop); });
  for (std::uint64_t b = 1; b < 20; ++b) {
    const SampleResult batch = prefetcher.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch.status().passes, b / 2);
  }
}

}  // namespace
}  // namespace reprise::test
