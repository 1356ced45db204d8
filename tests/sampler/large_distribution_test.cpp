// The distribution of draws from large buffers, after a million updates and while writers append.

#include "testing/statistics/chi_square.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr std::size_t kBatch = 8192;
constexpr std::size_t kUpdateBatch = 512;

/// Returns `full` at a test scale of 10 and above, and a tenth of it at 1.
std::size_t scaled_up_to(std::size_t full) {
  return std::min(full, scaled(full / 10, full / 1000));
}

/// A buffer of items whose weights the test keeps by slot. Its capacity is twice the number of
/// items, so that nothing is evicted while writers append.
class LargeBuffer {
 public:
  explicit LargeBuffer(std::size_t items) : line_(options(items)) {
    std::vector<std::jthread> filling;
    for (std::uint64_t w = 0; w < kFillThreads; ++w) {
      filling.emplace_back(
          [this, begin = w * items / kFillThreads, end = (w + 1) * items / kFillThreads] {
            Writer writer = line_.replay.writer();
            line_.append_many(writer, begin, end - begin, 1.0F);
          });
    }
    filling.clear();
    find_items();
  }

  ReplayBuffer& replay() { return line_.replay; }
  [[nodiscard]] std::size_t items() const { return keys_.size(); }

  /// Starts threads that append items of weight 0, which change the trees all the time but not the
  /// distribution. Each update and each draw allows some more appends, after waiting for those
  /// allowed before. So the threads append until the end at any speed, and do not fill the memory.
  void start_appending() {
    for (std::size_t t = 0; t < kAppendThreads; ++t) {
      appending_.emplace_back([this, t](const std::stop_token& stop) {
        Writer writer = line_.replay.writer();
        Rng rng(t);
        for (std::uint64_t i = 0; !stop.stop_requested();) {
          const bool allowed = i < allowed_.load(std::memory_order_relaxed);
          if (allowed) {
            line_.append(writer, i++, 0.0F);
            appended_.fetch_add(1, std::memory_order_relaxed);
          }
          if (!allowed || rng.chance(0.1)) {
            std::this_thread::sleep_for(50us);
          }
        }
      });
    }
  }
  void stop_appending() { appending_.clear(); }
  [[nodiscard]] std::size_t appended() const { return appended_.load(std::memory_order_relaxed); }

  /// Sets weights to whole numbers, one in seven of them 0, so that every sum is exact.
  void update(std::size_t updates, std::uint64_t seed) {
    Rng rng(seed);
    std::array<ItemKey, kUpdateBatch> keys;
    std::array<float, kUpdateBatch> priorities{};
    for (std::size_t done = 0; done < updates; done += kUpdateBatch) {
      allow_appends(4);
      for (std::size_t i = 0; i < kUpdateBatch; ++i) {
        keys[i] = keys_[rng.below(keys_.size())];
        priorities[i] = rng.below(7) == 0 ? 0.0F : static_cast<float>(1 + rng.below(1000));
        weights_[keys[i].slot()] = static_cast<double>(priorities[i]);
      }
      ASSERT_EQ(line_.replay.update_priorities(keys, priorities).applied, kUpdateBatch);
    }
  }

  /// Draws `draws` items and checks their probabilities. Returns the z-score of a chi-square test
  /// of their counts.
  double draw_z_score(std::size_t draws, std::uint64_t seed) {
    const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    std::vector<double> probabilities(weights_);
    for (double& probability : probabilities) {
      probability /= total;
    }
    std::vector<std::uint64_t> counts(weights_.size());
    Sampler sampler = line_.replay.sampler({.seed = seed});
    double worst = 0.0;
    for (std::size_t drawn = 0; drawn < draws; drawn += kBatch) {
      allow_appends(64);
      const SampleResult batch =
          sampler.sample(kBatch, {.draws = Draws::Independent, .gather = false});
      for (std::size_t i = 0; i < kBatch; ++i) {
        const std::uint32_t slot = batch->keys()[i].slot();
        ++counts[slot];
        worst = std::max(worst, std::abs(batch->probabilities()[i] / probabilities[slot] - 1.0));
      }
    }
    EXPECT_LT(worst, 1e-12) << "relative error of a reported probability";
    return chi_square_z(counts, probabilities);
  }

 private:
  static Options options(std::size_t items) {
    return SmallOptions{
        .capacity_steps = 2 * items, .max_writers = kFillThreads, .chunk_steps = 1024, .shards = 4};
  }

  /// Finds the slots that hold items. Nothing was evicted yet, so every key has generation 0, and
  /// an update with it is applied if its slot holds an item.
  void find_items() {
    EXPECT_GT(line_.replay.size(), 0U);
    const Stats stats = line_.replay.stats();
    const std::size_t slots = stats.chunks * line_.replay.options().chunk_steps;
    weights_.assign(slots, 0.0);
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      const ItemKey key = ItemKey::make(slot, 0, *line_.replay.options().key_tag);
      if (line_.update(key, 1.0F).applied == 1) {
        keys_.push_back(key);
        weights_[slot] = 1.0;
      }
    }
  }

  /// Allows each thread `more` more appends, after waiting for those allowed before.
  void allow_appends(std::size_t more) {
    const std::size_t before = allowed_.load(std::memory_order_relaxed);
    yield_while([&] { return appended() < appending_.size() * before; });
    allowed_.store(before + more, std::memory_order_relaxed);
  }

  static constexpr std::size_t kFillThreads = 16;
  static constexpr std::size_t kAppendThreads = 2;

  NumberedBuffer line_;
  std::vector<ItemKey> keys_;
  std::vector<double> weights_;  ///< By slot; 0 if there is no item.
  std::atomic<std::size_t> appended_{0};
  /// Number of appends that each thread may have made by now.
  std::atomic<std::size_t> allowed_{0};
  // Declared last, because the threads use the members above.
  std::vector<std::jthread> appending_;
};

class LargeDistribution : public testing::TestWithParam<std::size_t> {};

TEST_P(LargeDistribution, PassesChiSquareAfterAMillionUpdatesBesideAppendingThreads) {
  const std::size_t items = scaled_up_to(GetParam());
  LargeBuffer buffer(items);
  ASSERT_EQ(buffer.items(), items);
  buffer.start_appending();
  ASSERT_NO_FATAL_FAILURE(buffer.update(std::min<std::size_t>(1'000'000, scaled(1'000'000)), 3));
  const std::size_t before_draws = buffer.appended();
  const double z = buffer.draw_z_score(scaled_up_to(10'000'000), 4);
  const std::size_t beside_draws = buffer.appended() - before_draws;
  // Weights change once more between the draws.
  ASSERT_NO_FATAL_FAILURE(buffer.update(kUpdateBatch, 5));
  const double later = buffer.draw_z_score(scaled_up_to(1'000'000), 6);
  buffer.stop_appending();
  EXPECT_GT(beside_draws, 0U);
  EXPECT_EQ(buffer.replay().size(), items + buffer.appended());
  RecordProperty("z", std::to_string(z));
  EXPECT_LT(std::abs(z), kNeverByChance);
  EXPECT_LT(std::abs(later), kNeverByChance);
}

INSTANTIATE_TEST_SUITE_P(Items, LargeDistribution,
                         testing::Values(std::size_t{1} << 20U, std::size_t{1} << 23U),
                         [](const auto& items) { return std::to_string(items.param); });

TEST(LargeDistributionOfFloats, IsDrawnWithoutTheBiasOfFloatSumsAndFloatRandoms) {
  // With a float tree, or random numbers of 24 bits, some of these items could never be drawn.
  const std::size_t items = std::size_t{1} << 21U;
  NumberedBuffer line(SmallOptions{.capacity_steps = items, .chunk_steps = 2048});
  const auto weight_of = [](std::uint64_t i) { return 0.1F + static_cast<float>(i % 7) * 0.3F; };
  line.append_many(0, items, weight_of);
  Sampler sampler = line.replay.sampler({.seed = 12});
  // The test scale does not apply, because with fewer draws the test would show nothing.
  constexpr std::size_t kDraws = 10'000'384 / kBatch * kBatch;
  std::vector<std::uint64_t> counts;
  for (std::size_t drawn = 0; drawn < kDraws; drawn += kBatch) {
    const SampleResult batch =
        require_batch(sampler.sample(kBatch, {.draws = Draws::Independent, .gather = false}));
    for (const ItemKey key : batch->keys()) {
      if (key.slot() >= counts.size()) {
        counts.resize(key.slot() + 1);
      }
      ++counts[key.slot()];
    }
  }
  // The buffer decides which slot holds which item, and other tests check the sums over items of
  // equal weight. So this test counts the items that were never drawn.
  double undrawn = static_cast<double>(items);
  for (const std::uint64_t count : counts) {
    undrawn -= count > 0 ? 1.0 : 0.0;
  }
  double total = 0.0;
  for (std::size_t i = 0; i < items; ++i) {
    total += static_cast<double>(weight_of(i));
  }
  double expected = 0.0;
  double variance = 0.0;
  for (std::size_t i = 0; i < items; ++i) {
    const auto weight = static_cast<double>(weight_of(i));
    const double probability_undrawn = std::exp(-static_cast<double>(kDraws) * weight / total);
    expected += probability_undrawn;
    variance += probability_undrawn * (1.0 - probability_undrawn);
  }
  EXPECT_LT(std::abs(undrawn - expected), kMaxZ * std::sqrt(variance))
      << undrawn << " items never drawn, " << expected << " expected";
}

}  // namespace
}  // namespace reprise::test
