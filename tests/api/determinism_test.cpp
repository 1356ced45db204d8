#include <reprise/reprise.hpp>

#include "../support/line.hpp"
#include "../support/removers.hpp"
#include "../support/rng.hpp"
#include "../support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace reprise::test {
namespace {

template <class T>
void append_bytes(std::string& bytes, std::span<T> column) {
  bytes.append(reinterpret_cast<const char*>(column.data()), column.size_bytes());
}

std::string bytes_of(const Line& line, const Batch& batch) {
  std::string bytes;
  append_bytes(bytes, batch.now(line.id));
  append_bytes(bytes, batch.next(line.id));
  append_bytes(bytes, batch.now(line.action));
  append_bytes(bytes, batch.now(line.reward));
  append_bytes(bytes, batch.returns(line.reward));
  append_bytes(bytes, batch.discounts());
  append_bytes(bytes, batch.weights());
  append_bytes(bytes, batch.probabilities());
  append_bytes(bytes, batch.keys());
  append_bytes(bytes, batch.episode_ids());
  append_bytes(bytes, batch.positions());
  append_bytes(bytes, batch.lengths());
  return bytes;
}

/// Appends, draws and updates in an order that the seed decides; gives all batches as bytes.
std::string history(std::uint64_t seed, std::size_t shards, Draws draws,
                    std::uint64_t sampler_seed = 11, const Remover& remover = Fifo{}) {
  Options options = small_options();
  options.capacity_steps = 300;
  options.window = Transitions{.n_step = 3, .discount = 0.97F};
  options.selectors = {Proportional{}};
  options.shards = shards;
  options.remover = remover;
  Line line(options);
  std::optional<Writer> writers[3];
  Sampler samplers[2] = {line.replay.sampler({.seed = sampler_seed}),
                         line.replay.sampler({.seed = sampler_seed + 1})};
  Rng rng(seed);
  std::string bytes;
  std::vector<float> priorities;
  for (std::uint64_t step = 0; step < 2000; ++step) {
    std::optional<Writer>& writer = writers[rng.below(3)];
    if (!writer) {
      writer.emplace(line.replay.writer());
    }
    line.append(*writer, step, rng.chance(0.05) ? End::Terminated : End::Continue);
    if (rng.chance(0.01)) {
      writer.reset();
    }
    if (!rng.chance(0.1) || line.replay.size() == 0) {
      continue;
    }
    const SampleResult batch = samplers[rng.below(2)].sample(24, {.draws = draws});
    bytes += bytes_of(line, *batch);
    priorities.clear();
    for (std::size_t i = 0; i < batch->size(); ++i) {
      priorities.push_back(static_cast<float>(rng.unit()));
    }
    line.replay.update_priorities(batch->keys(), priorities);
  }
  return bytes;
}

class Determinism : public testing::TestWithParam<std::tuple<std::size_t, Draws>> {};

TEST_P(Determinism, TheSameCallsGiveTheSameBatchesBitForBit) {
  const auto [shards, draws] = GetParam();
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::string first = history(seed, shards, draws);
    EXPECT_GT(first.size(), 10000U);
    EXPECT_TRUE(first == history(seed, shards, draws));
    EXPECT_FALSE(first == history(seed, shards, draws, 99)) << "the sampler's seed matters";
  }
}

INSTANTIATE_TEST_SUITE_P(ShardsAndDraws, Determinism,
                         testing::Combine(testing::Values(1U, 3U),
                                          testing::Values(Draws::Stratified, Draws::Independent)));

class RemoverDeterminism : public testing::TestWithParam<NamedRemover> {};

INSTANTIATE_TEST_SUITE_P(Removers, RemoverDeterminism, testing::ValuesIn(all_removers()), name_of);

TEST_P(RemoverDeterminism, TheSameCallsGiveTheSameBatchesBitForBit) {
  const Remover& remover = GetParam().remover;
  for (const std::size_t shards : {1U, 3U}) {
    const std::string first = history(1, shards, Draws::Stratified, 11, remover);
    EXPECT_TRUE(first == history(1, shards, Draws::Stratified, 11, remover));
    if (GetParam().name != "Fifo") {
      EXPECT_FALSE(first == history(1, shards, Draws::Stratified)) << "the remover matters";
    }
  }
}

TEST(DeterminismOfTags, WithoutAGivenTagBuffersTellTheirKeysApart) {
  Options options = small_options();
  options.key_tag.reset();
  std::set<std::uint32_t> tags;
  // Two tags of 4096 may coincide, but hardly six.
  for (int buffer = 0; buffer < 6; ++buffer) {
    Line line(options);
    Writer writer = line.replay.writer();
    line.append(writer, 0);
    tags.insert(line.keys().at(0).tag());
  }
  EXPECT_GT(tags.size(), 1U);
}

TEST(DeterminismOfGather, SharingTheGatherOutGivesTheSameBatch) {
  if (kThreadSanitizer) {
    GTEST_SKIP() << "oneTBB is not instrumented";
  }
  Options options = small_options();
  options.capacity_steps = 4000;
  Line line(options);
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 4000);
  Sampler alone = line.replay.sampler({.seed = 6});
  Sampler parallel = line.replay.sampler({.seed = 6, .parallel_gather_bytes = 1});
  for (int i = 0; i < 5; ++i) {
    const SampleResult expected = alone.sample(3000);
    const SampleResult actual = parallel.sample(3000);
    ASSERT_TRUE(expected && actual);
    EXPECT_TRUE(bytes_of(line, *expected) == bytes_of(line, *actual));
  }
}

}  // namespace
}  // namespace reprise::test
