#include "testing/statistics/chi_square.hpp"
#include "testing/test.hpp"
#include "testing/worlds/remover_model.hpp"

namespace reprise {
namespace {

using Chunks = std::vector<std::uint32_t>;

/// The chunks of a shard, with steps and weights that a test sets.
class FakeChunks final : public ShardChunks {
 public:
  explicit FakeChunks(std::uint32_t chunks, std::uint32_t steps = 10)
      : steps_(chunks, steps), weights_{std::vector<double>(chunks), std::vector<double>(chunks)} {}

  [[nodiscard]] std::uint32_t chunks() const noexcept override {
    return static_cast<std::uint32_t>(steps_.size());
  }
  [[nodiscard]] std::size_t selectors() const noexcept override { return 2; }
  [[nodiscard]] std::uint32_t steps(std::uint32_t chunk) const noexcept override {
    return steps_[chunk];
  }
  [[nodiscard]] double weight(std::uint32_t chunk, std::size_t selector) const noexcept override {
    return weights_[selector][chunk];
  }

  void set_steps(std::uint32_t chunk, std::uint32_t steps) { steps_[chunk] = steps; }
  void set_weight(std::uint32_t chunk, double weight, std::size_t selector = 0) {
    weights_[selector][chunk] = weight;
  }

 private:
  std::vector<std::uint32_t> steps_;
  std::vector<double> weights_[2];
};

/// A remover of FakeChunks, some of which have entered.
struct RemoverOfChunks {
  explicit RemoverOfChunks(const Remover& remover, std::uint32_t count = 8,
                           std::initializer_list<std::uint32_t> entered = {})
      : chunks(count), part(remover.make_shard_remover(chunks)) {
    for (const std::uint32_t chunk : entered) {
      part->enters(chunk);
    }
  }

  void sample(const Chunks& drawn) { part->sampled(drawn); }
  /// Removes the victim and returns it.
  std::uint32_t evict() {
    const std::uint32_t chunk = part->victim();
    part->leaves(chunk);
    return chunk;
  }
  Chunks evict_all(std::size_t count) {
    Chunks gone;
    for (std::size_t i = 0; i < count; ++i) {
      gone.push_back(evict());
    }
    return gone;
  }

  FakeChunks chunks;
  std::unique_ptr<ShardRemover> part;
};

TEST(Remover, OfFifoIsWhatAShardDoesByItself) {
  EXPECT_EQ(Remover(Fifo{}).make_shard_remover(FakeChunks(4)), nullptr);
}

TEST(Remover, TellsItsStrategy) {
  const Remover remover = LeastRecentlySampled{.candidates = 5};
  ASSERT_NE(remover.target<LeastRecentlySampled>(), nullptr);
  EXPECT_EQ(*remover.target<LeastRecentlySampled>(), LeastRecentlySampled{.candidates = 5});
  EXPECT_EQ(remover.target<LeastFrequentlySampled>(), nullptr);
}

TEST(Remover, ThatWasMovedFromIsFifo) {
  Remover remover = SecondChance{};
  const Remover moved = std::move(remover);
  EXPECT_NE(moved.make_shard_remover(FakeChunks(4)), nullptr);
  // NOLINTNEXTLINE(bugprone-use-after-move): the state after a move is specified.
  EXPECT_EQ(remover.make_shard_remover(FakeChunks(4)), nullptr);
}

TEST(Remover, OnlyThoseThatUseSamplesAreToldOfThem) {
  EXPECT_TRUE(RemoverOfChunks(SecondChance{}).part->wants_samples());
  EXPECT_TRUE(RemoverOfChunks(LeastRecentlySampled{}).part->wants_samples());
  EXPECT_TRUE(RemoverOfChunks(LeastFrequentlySampled{}).part->wants_samples());
  EXPECT_FALSE(RemoverOfChunks(LowestPriority{}).part->wants_samples());
}

TEST(Remover, RefusesOptionsThatItDoesNotAllow) {
  const FakeChunks chunks(4);
  for (const std::uint32_t candidates : {0U, 257U}) {
    const std::string value = std::to_string(candidates);
    test::expect_refusal(
        [&] { (void)LeastRecentlySampled{.candidates = candidates}.make_shard_remover(chunks); },
        {"LeastRecentlySampled::candidates", value, "1 to 256"});
    test::expect_refusal(
        [&] { (void)LeastFrequentlySampled{.candidates = candidates}.make_shard_remover(chunks); },
        {"LeastFrequentlySampled::candidates", value, "1 to 256"});
    test::expect_refusal(
        [&] { (void)LowestPriority{.candidates = candidates}.make_shard_remover(chunks); },
        {"LowestPriority::candidates", value, "1 to 256"});
  }
  test::expect_refusal([&] { (void)LowestPriority{.selector = 2}.make_shard_remover(chunks); },
                       {"LowestPriority::selector", "is 2", "0 to 1"});
}

TEST(LeastFrequentlySampled, CountsDrawsAsNothingAfterBillionsOfNewerSteps) {
  RemoverOfChunks tested(LeastFrequentlySampled{}, 8, {0, 3});
  tested.sample(Chunks(100, 0));
  tested.chunks.set_steps(1, 1U << 31U);
  for (int i = 0; i < 40; ++i) {
    tested.part->enters(1);
    tested.part->leaves(1);
  }
  tested.part->enters(2);
  EXPECT_EQ(tested.evict_all(3), (Chunks{0, 3, 2}));
}

TEST(LowestPriority, ReadsTheNamedSelectorAsItIsNow) {
  RemoverOfChunks tested(LowestPriority{.selector = 1}, 8, {0, 1});
  tested.chunks.set_weight(0, 1.0, 1);
  tested.chunks.set_weight(1, 2.0, 1);
  tested.chunks.set_weight(1, 0.5, 0);
  EXPECT_EQ(tested.part->victim(), 0U);
  tested.chunks.set_weight(0, 3.0, 1);
  EXPECT_EQ(tested.part->victim(), 1U);
}

/// If k candidates are picked from many chunks, the expected place of the lowest is 1 / (k + 1) of
/// the sorted chunks, with a standard deviation of sqrt(k / (k + 2)) / (k + 1).
TEST(Candidates, FindTheLowestOfTheOrderAsWellAsTheirNumberAllows) {
  constexpr std::uint32_t kChunks = 2000;
  constexpr int kChoices = 2000;
  for (const std::uint32_t candidates : {1U, 2U, 8U, 32U}) {
    SCOPED_TRACE(testing::Message() << candidates << " candidates");
    RemoverOfChunks tested(LowestPriority{.candidates = candidates}, kChunks);
    for (std::uint32_t c = 0; c < kChunks; ++c) {
      tested.part->enters(c);
      // The weights differ and are not sorted, because 1009 and 2000 have no common divisor.
      tested.chunks.set_weight(c, static_cast<double>(c * 1009 % kChunks));
    }
    double sum = 0.0;
    for (int i = 0; i < kChoices; ++i) {
      sum += tested.chunks.weight(tested.part->victim(), 0) / kChunks;
    }
    const double k = candidates;
    const double sigma = std::sqrt(k / (k + 2.0)) / (k + 1.0) / std::sqrt(double{kChoices});
    EXPECT_NEAR(sum / kChoices, 1.0 / (k + 1.0), test::kMaxZ * sigma);
  }
}

/// Whatever chunks enter and leave, a victim is a chunk that has entered, and the same calls choose
/// the same victim.
TEST(Candidates, HaveEnteredAndAreTheSameForTheSameCalls) {
  for (const Remover& remover : {Remover(LeastRecentlySampled{.candidates = 2}),
                                 Remover(LeastFrequentlySampled{.candidates = 2}),
                                 Remover(LowestPriority{.candidates = 2})}) {
    constexpr std::uint32_t kChunks = 40;
    constexpr std::uint64_t kSeed = 5;
    SCOPED_TRACE(testing::Message() << "seed " << kSeed);
    test::Rng rng(kSeed);
    RemoverOfChunks tested(remover, kChunks);
    RemoverOfChunks twin(remover, kChunks);
    std::set<std::uint32_t> entered;
    for (int i = 0; i < 5000; ++i) {
      const auto chunk = static_cast<std::uint32_t>(rng.below(kChunks));
      if (!entered.contains(chunk)) {
        entered.insert(chunk);
        tested.part->enters(chunk);
        twin.part->enters(chunk);
      } else if (rng.chance(0.3)) {
        tested.sample({chunk});
        twin.sample({chunk});
      } else {
        const std::uint32_t victim = tested.evict();
        ASSERT_EQ(twin.evict(), victim);
        ASSERT_EQ(entered.erase(victim), 1U);
      }
    }
  }
}

using Rule = test::RemoverModel::Rule;

class RemoverAgainstItsModel : public testing::TestWithParam<Rule> {};
INSTANTIATE_TEST_SUITE_P(Rules, RemoverAgainstItsModel,
                         testing::Values(Rule::SecondChance, Rule::LeastRecently,
                                         Rule::LeastFrequently, Rule::LowestPriority));

TEST_P(RemoverAgainstItsModel, ChoosesTheSameAmongChunksThatComeAndGo) {
  constexpr std::uint64_t kSeed = 23;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  constexpr std::uint32_t kChunks = 12;
  test::Rng rng(kSeed);
  RemoverOfChunks tested(test::RemoverModel::remover(GetParam()), kChunks);
  test::RemoverModel model(GetParam());
  const auto priority = [&](std::uint32_t chunk) {
    return tested.chunks.weight(chunk, 0) / tested.chunks.steps(chunk);
  };
  std::set<std::uint32_t> entered;
  const auto leave = [&](std::uint32_t chunk) {
    tested.part->leaves(chunk);
    model.emptied(chunk);
    entered.erase(chunk);
  };
  for (int i = 0; i < 20000; ++i) {
    const auto chunk = static_cast<std::uint32_t>(rng.below(kChunks));
    const std::size_t kind = rng.below(4);
    if (kind == 0 && entered.insert(chunk).second) {
      const auto steps = static_cast<std::uint32_t>(rng.between(1, 9));
      tested.chunks.set_steps(chunk, steps);
      tested.chunks.set_weight(chunk, static_cast<double>(rng.below(40)));
      tested.part->enters(chunk);
      model.filled(chunk, steps);
    } else if (kind == 1 && entered.contains(chunk)) {
      const Chunks drawn(rng.between(1, 3), chunk);
      tested.sample(drawn);
      model.sampled(drawn);
    } else if (kind == 2 && entered.contains(chunk) && rng.chance(0.2)) {
      leave(chunk);
    } else if (kind == 3 && !entered.empty()) {
      const std::uint32_t victim = model.victim({}, priority);
      ASSERT_EQ(tested.part->victim(), victim) << "operation " << i;
      leave(victim);
    }
  }
}

}  // namespace
}  // namespace reprise
