#include "testing/fixtures/removers.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr std::size_t kCapacity = 2000;
/// Number of steps after which the items are scanned again.
constexpr std::size_t kScanInterval = kCapacity / 50;

/// A buffer of steps in episodes of 60, with counts of how old steps were when they were evicted,
/// and of how many had never been drawn.
class AgeTracker {
 public:
  explicit AgeTracker(Options options)
      : line_(options), sampler_(line_.replay.selector(0).sampler({.seed = 5})) {
    for (std::size_t w = 0; w < options.max_writers; ++w) {
      writers_.push_back(line_.replay.writer());
    }
  }

  /// Appends `capacities` * kCapacity steps, and draws. With `update`, draws set new priorities.
  template <class Priority>
  void append(double capacities, double draws_per_step, const Priority& priority,
              bool update = false) {
    const auto steps = static_cast<std::size_t>(capacities * kCapacity);
    double due_draws = 0.0;
    for (std::size_t i = 0; i < steps; ++i) {
      append_one(priority(drawn_.size()));
      due_draws += draws_per_step;
      for (; due_draws >= kBatch && drawn_.size() >= kBatch; due_draws -= kBatch) {
        draw(update);
      }
      if (drawn_.size() % kScanInterval == 0) {
        scan_items();
      }
    }
  }

  /// Resets the counts, so that the functions below count only later steps.
  void reset_counts() {
    evicted_count_ = never_drawn_ = evicted_young_ = 0;
    oldest_ = 0;
  }
  [[nodiscard]] double share_never_drawn() const { return share(never_drawn_); }
  /// Share of the evicted steps that left at an age below a tenth of the capacity.
  [[nodiscard]] double share_evicted_young() const { return share(evicted_young_); }
  /// The greatest age of any step, in capacities.
  [[nodiscard]] double oldest() const { return oldest_; }
  /// The steps in the buffer that are older than this, as a share of the capacity.
  [[nodiscard]] double share_older_than(double capacities) const {
    return static_cast<double>(std::ranges::count_if(
               present_, [&](const Item& item) { return age(item) > capacities; })) /
           kCapacity;
  }

 private:
  static constexpr std::size_t kBatch = 32;
  struct Item {
    std::uint64_t number;
    ItemKey key;
  };

  [[nodiscard]] double share(std::size_t count) const {
    return static_cast<double>(count) / static_cast<double>(evicted_count_);
  }
  [[nodiscard]] double age(const Item& item) const {
    return static_cast<double>(drawn_.size() - item.number) / kCapacity;
  }

  void append_one(float priority) {
    const std::uint64_t number = drawn_.size();
    Writer& writer = writers_[number % writers_.size()];
    const std::uint64_t position = writer.in_episode() ? writer.episode_steps() : 0;
    line_.append(writer, number, position == 59 ? End::Terminated : End::Continue,
                 std::span(&priority, 1));
    drawn_.push_back(false);
    if (const auto key = line_.replay.episodes().find(writer.episode_id(), position)) {
      present_.push_back({number, *key});
    }
  }

  void draw(bool update) {
    const SampleResult batch = sampler_.sample(kBatch, kNoWait);
    if (!batch) {
      return;  // The remaining items weigh 0.
    }
    std::vector<float> priorities;
    for (std::size_t i = 0; i < kBatch; ++i) {
      drawn_[batch->now(line_.action)[i]] = true;
      const auto error = static_cast<float>(rng_.below(1000)) / 1000.0F;
      priorities.push_back(error * error * error + 0.001F);
    }
    if (update) {
      line_.replay.update_priorities(batch->keys(), priorities);
    }
  }

  void scan_items() {
    std::vector<ItemKey> keys;
    std::ranges::transform(present_, std::back_inserter(keys), &Item::key);
    std::vector<float> priorities(keys.size());
    line_.replay.selector().priorities(keys, priorities);
    std::vector<Item> remaining;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!std::isnan(priorities[i])) {
        remaining.push_back(present_[i]);
        oldest_ = std::max(oldest_, age(present_[i]));
        continue;
      }
      ++evicted_count_;
      if (age(present_[i]) < 0.1) {
        ++evicted_young_;
      }
      if (!drawn_[present_[i].number]) {
        ++never_drawn_;
      }
    }
    present_ = std::move(remaining);
  }

  NumberedBuffer line_;
  Sampler sampler_;
  std::vector<Writer> writers_;
  std::vector<bool> drawn_;    ///< Whether the step of each number was drawn.
  std::vector<Item> present_;  ///< The items at the last scan, and those appended since.
  std::size_t evicted_count_ = 0;
  std::size_t never_drawn_ = 0;
  std::size_t evicted_young_ = 0;
  double oldest_ = 0.0;
  Rng rng_{11};
};

/// Options with a writer for each shard.
Options sharded_options(const Remover& remover, std::size_t shards = 1) {
  return SmallOptions{.capacity_steps = kCapacity,
                      .episode_index = true,
                      .remover = remover,
                      .max_writers = shards,
                      .chunk_steps = 16,
                      .shards = shards};
}

/// What a remover's documentation promises about the steps that leave.
struct Promise {
  std::string_view remover;
  /// The smallest age, in capacities, at which a step is evicted if draws and weights treat all
  /// steps alike. The age beyond that is random, so that the mean age is 1.
  double random_from_age;
  /// The greatest age of such a step, in capacities.
  double oldest;
  /// What happens to a hot chunk: the only chunk with weight, so that all draws are from it.
  enum class HotChunk { LeavesLikeOthers, LeavesLater, Stays } hot;
};
using HotChunk = Promise::HotChunk;

/// The greatest age with a remover that compares 8 chunks at a time. While x capacities arrive,
/// such a remover does not compare a share of e^-8x of the chunks; in the 1.5 capacities beyond the
/// mean age of 1, a share of e^-12.
constexpr double kOldestOfCompared = 2.5;
constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr Promise kPromises[] = {
    {"Fifo", 1.0, 1.0, HotChunk::LeavesLikeOthers},
    {"SecondChance", 0.5, kUnbounded, HotChunk::Stays},
    {"LeastRecentlySampled", 0.0, kUnbounded, HotChunk::Stays},
    {"LeastFrequentlySampled", 1.0, kOldestOfCompared, HotChunk::LeavesLater},
    {"LowestPriority", 1.0, kOldestOfCompared, HotChunk::Stays},
};

class RemoverAges : public testing::TestWithParam<NamedRemover> {
 protected:
  /// Fails for a library remover that has no row in kPromises.
  void SetUp() override {
    const auto* const row =
        std::ranges::find(kPromises, std::string_view(GetParam().name), &Promise::remover);
    ASSERT_NE(row, std::end(kPromises)) << "add the promises of this remover";
    promise_ = *row;
  }

  /// Compares the shares with a model in which the age beyond `random_from_age` is exponential. The
  /// last summand of each bound allows for chance and for steps that are evicted by chunks.
  void expect_promised(const AgeTracker& watched, double draws_per_step, bool prioritized) const {
    const double min_age = promise_.random_from_age;
    const double mean = 1.0 - min_age;  // Of the age beyond the smallest.
    EXPECT_LE(watched.share_evicted_young(), (min_age > 0.0 ? 0.0 : 1.0 - std::exp(-0.1)) + 0.01);
    EXPECT_LE(watched.share_never_drawn(),
              std::exp(-draws_per_step * min_age) / (1.0 + draws_per_step * mean) + 0.03);
    EXPECT_LE(watched.share_older_than(3.0),
              (mean > 0.0 ? std::exp((min_age - 3.0) / mean) : 0.0) + 0.05);
    if (!prioritized || promise_.hot != HotChunk::Stays) {
      EXPECT_LE(watched.oldest(), promise_.oldest);
    }
  }

  Promise promise_{};
};

INSTANTIATE_TEST_SUITE_P(All, RemoverAges, testing::ValuesIn(library_removers()), name_of);

constexpr auto kEqualPriority = [](std::uint64_t) { return 1.0F; };

TEST_P(RemoverAges, OfEvictedStepsAreAsPromised) {
  for (const std::size_t shards : {1U, 4U}) {
    for (const bool prioritized : {false, true}) {
      for (const double draws_per_step : {0.0, 0.25, 1.0, 8.0}) {
        SCOPED_TRACE(testing::Message() << shards << " shards, " << draws_per_step
                                        << " draws per step, prioritized: " << prioritized);
        AgeTracker watched(sharded_options(GetParam().remover, shards));
        watched.append(3.0, draws_per_step, kEqualPriority, prioritized);
        watched.reset_counts();
        watched.append(static_cast<double>(scaled(9, 3)), draws_per_step, kEqualPriority,
                       prioritized);
        expect_promised(watched, draws_per_step, prioritized);
      }
    }
  }
}

/// Steps that were often drawn are evicted some time after the draws have ended.
TEST_P(RemoverAges, AreBoundedAfterDrawsHaveEnded) {
  AgeTracker watched(sharded_options(GetParam().remover));
  watched.append(3.0, 8.0, kEqualPriority);
  watched.append(2.5, 0.0, kEqualPriority);
  watched.reset_counts();
  watched.append(0.5, 0.0, kEqualPriority);
  EXPECT_LE(watched.oldest(), kOldestOfCompared);
}

TEST_P(RemoverAges, OfAHotChunkAreAsPromised) {
  const auto hot = [](std::uint64_t number) { return number >= 600 && number < 615 ? 1.0F : 0.0F; };
  AgeTracker watched(sharded_options(GetParam().remover));
  constexpr double kTurnovers = 13.0;
  watched.append(kTurnovers, 1.0, hot);
  switch (promise_.hot) {
    case HotChunk::LeavesLikeOthers:
      EXPECT_LE(watched.oldest(), promise_.oldest);
      break;
    case HotChunk::LeavesLater:
      // 3 + log2(M * (1 + r)) of `LeastFrequentlySampled`, with M chunks and r = 1 draw per step.
      EXPECT_LE(watched.oldest(), 3.0 + std::log2(kCapacity / 15.0 * (1.0 + 1.0)));
      EXPECT_GE(watched.oldest(), 5.0) << "the hot chunk outlives the others";
      break;
    case HotChunk::Stays:
      EXPECT_GT(watched.oldest(), kTurnovers - 0.5);
  }
}

}  // namespace
}  // namespace reprise::test
