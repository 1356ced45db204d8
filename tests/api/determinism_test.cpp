#include "testing/fixtures/removers.hpp"
#include "testing/program/sanitizer.hpp"
#include "testing/test.hpp"
#include "testing/worlds/replayed.hpp"

namespace reprise::test {
namespace {

/// All batches of a series of random calls, which the seed determines.
std::vector<RandomRun::RecordedBatch> batches_of_run(std::uint64_t seed, std::size_t shards,
                                                     Draws draws, const Remover& remover = Fifo{},
                                                     const Selector& selector = Proportional{}) {
  RandomRun replayed(SmallOptions{.capacity_steps = 300,
                                  .window = Transitions{.n_step = 3, .discount = 0.97F},
                                  .selectors = {selector},
                                  .remover = remover,
                                  .shards = shards},
                     3, seed, draws);
  std::vector<RandomRun::RecordedBatch> batches;
  replayed.run_steps(2000, &batches);
  return batches;
}

class Determinism : public testing::TestWithParam<std::tuple<std::size_t, Draws>> {};

TEST_P(Determinism, TheSameCallsGiveTheSameBatchesBitForBit) {
  const auto [shards, draws] = GetParam();
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto first = batches_of_run(seed, shards, draws);
    EXPECT_GT(first.size(), 100U);
    EXPECT_TRUE(first == batches_of_run(seed, shards, draws));
    EXPECT_FALSE(first == batches_of_run(seed + 1, shards, draws)) << "the seed matters";
  }
}

INSTANTIATE_TEST_SUITE_P(ShardsAndDraws, Determinism,
                         testing::Combine(testing::Values(1U, 3U),
                                          testing::Values(Draws::Stratified, Draws::Independent,
                                                          Draws::Epoch)));

class RemoverDeterminism : public testing::TestWithParam<NamedRemover> {};

INSTANTIATE_TEST_SUITE_P(Removers, RemoverDeterminism, testing::ValuesIn(all_removers()), name_of);

TEST_P(RemoverDeterminism, TheSameCallsGiveTheSameBatchesBitForBit) {
  const Remover& remover = GetParam().remover;
  for (const std::size_t shards : {1U, 3U}) {
    const auto first = batches_of_run(1, shards, Draws::Stratified, remover);
    EXPECT_TRUE(first == batches_of_run(1, shards, Draws::Stratified, remover));
    if (GetParam().name != "Fifo") {
      EXPECT_FALSE(first == batches_of_run(1, shards, Draws::Stratified)) << "the remover matters";
    }
  }
}

TEST(DeterminismOfSelectors, TheSameCallsGiveTheSameBatchesBitForBit) {
  for (const StrategyKind<Selector>& kind : selectors()) {
    const auto of_selector = [&] {
      return batches_of_run(1, 3, Draws::Stratified, Fifo{}, kind.make());
    };
    EXPECT_TRUE(of_selector() == of_selector()) << kind.name();
  }
}

TEST(DeterminismOfTags, BuffersWithoutAGivenTagHaveDifferentTags) {
  Options options = SmallOptions{};
  options.key_tag.reset();
  std::set<std::uint32_t> tags;
  // Of 4096 possible tags, two may be equal by chance, but hardly all six.
  for (int buffer = 0; buffer < 6; ++buffer) {
    NumberedBuffer line(options);
    line.append(0);
    tags.insert(line.keys().at(0).tag());
  }
  EXPECT_GT(tags.size(), 1U);
}

TEST(DeterminismOfGather, AParallelGatherGivesTheSameBatch) {
  if (kThreadSanitizer) {
    GTEST_SKIP() << "oneTBB is not instrumented";
  }
  NumberedBuffer line(SmallOptions{.capacity_steps = 4000});
  line.append_many(0, 4000);
  Sampler sequential = line.replay.sampler({.seed = 6});
  Sampler parallel = line.replay.sampler({.seed = 6, .parallel_gather_bytes = 1});
  for (int i = 0; i < 5; ++i) {
    const SampleResult expected = sequential.sample(3000);
    const SampleResult actual = parallel.sample(3000);
    ASSERT_TRUE(expected && actual);
    EXPECT_TRUE(std::ranges::equal(expected->keys(), actual->keys()));
    EXPECT_TRUE(std::ranges::equal(expected->now(line.id), actual->now(line.id)));
    EXPECT_TRUE(std::ranges::equal(expected->next(line.id), actual->next(line.id)));
    EXPECT_TRUE(std::ranges::equal(expected->now(line.reward), actual->now(line.reward)));
    EXPECT_TRUE(std::ranges::equal(expected->returns(line.reward), actual->returns(line.reward)));
  }
}

}  // namespace
}  // namespace reprise::test
