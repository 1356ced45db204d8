#include "testing/worlds/history.hpp"

#include "testing/test.hpp"

#include <deque>

namespace reprise::test {
namespace {

/// Passes keys from samplers to updaters. Some keys are stale when they are taken.
class KeyQueue {
 public:
  void put(ItemKey key) {
    const std::lock_guard lock(mutex_);
    keys_.push_back(key);
  }
  /// Takes the oldest or the newest key; nothing if the queue is empty.
  std::optional<ItemKey> take(bool oldest) {
    const std::lock_guard lock(mutex_);
    if (keys_.empty()) {
      return std::nullopt;
    }
    const ItemKey key = oldest ? keys_.front() : keys_.back();
    oldest ? keys_.pop_front() : keys_.pop_back();
    return key;
  }

 private:
  std::mutex mutex_;
  std::deque<ItemKey> keys_;
};

/// A small buffer with two writers, two samplers and an updater, each in a thread, whose calls are
/// all recorded.
class RecordedThreads {
 public:
  explicit RecordedThreads(std::uint64_t seed) : rng_(seed), line_(random_options(rng_)) {}

  /// Runs the threads and checks the history. Describes its first error; empty if it has none.
  std::string mismatch() {
    // All writers exist to the end, so that none continues another's chunk, as `History` assumes.
    std::vector<Writer> writers;
    for (std::size_t w = 0; w < kWriters; ++w) {
      writers.push_back(line_.replay.writer());
    }
    std::vector<History::Log> logs(kWriters + 3);
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < logs.size(); ++i) {
        threads.emplace_back([this, i, &writers, &log = logs[i], seed = rng_.next()] {
          Rng rng(seed);
          if (i < kWriters) {
            write(writers[i], i, log, rng);
          } else if (i == kWriters) {
            update(log, rng);
          } else {
            draw(log, rng);
          }
        });
      }
    }
    History history(line_.replay.options());
    for (const History::Log& log : logs) {
      history.add(log);
    }
    expect_steps_add_up(line_.replay);
    return history.first_mismatch();
  }

 private:
  static constexpr std::size_t kWriters = 2;
  static constexpr std::size_t kSteps = 60;  ///< Steps that each writer appends.

  static Options random_options(Rng& rng) {
    Options options = SmallOptions{.capacity_steps = rng.between(1, 40)};
    options.shards = rng.chance(0.7) ? 1 : std::min<std::size_t>(2, options.capacity_steps);
    options.chunk_steps = rng.between(2, 9);
    return options;
  }
  static float random_priority(Rng& rng) { return static_cast<float>(rng.below(6)); }
  static void pause(Rng& rng) {
    if (rng.chance(0.2)) {
      std::this_thread::yield();
    }
  }

  void write(Writer& writer, std::size_t index, History::Log& log, Rng& rng) {
    for (std::uint64_t i = 0; i < kSteps; ++i) {
      const std::uint64_t number = index * History::kPerWriter + i;
      const float priority = random_priority(rng);
      log.commits.push_back(
          {number, priority, timed([&] { line_.append(writer, number, priority); })});
      pause(rng);
    }
  }

  void draw(History::Log& log, Rng& rng) {
    Sampler sampler =
        line_.replay.sampler({.seed = rng.next(), .parallel_gather_bytes = kNoParallelGather});
    for (std::size_t i = 0; i < kSteps / 2; ++i) {
      History::Draw draw{};
      std::optional<SampleResult> result;
      draw.when = timed([&] { result.emplace(sampler.sample(rng.between(1, 8), kNoWait)); });
      draw.code = result->status().code;
      for (std::size_t k = 0; *result && k < (*result)->size(); ++k) {
        const Batch& batch = **result;
        draw.items.push_back(
            {batch.now(line_.action)[k], batch.keys()[k], batch.probabilities()[k]});
        keys_.put(batch.keys()[k]);
      }
      log.draws.push_back(std::move(draw));
      pause(rng);
      if (rng.chance(0.1)) {
        std::size_t size = 0;
        const Span when = timed([&] { size = line_.replay.size(); });
        log.sizes.push_back({size, when});
      }
    }
  }

  void update(History::Log& log, Rng& rng) {
    for (std::size_t i = 0; i < 2 * kSteps; ++i) {
      if (const std::optional<ItemKey> key = keys_.take(rng.chance(0.7))) {
        const float priority = random_priority(rng);
        bool applied = false;
        const Span when = timed([&] { applied = line_.update(*key, priority).applied == 1; });
        log.updates.push_back({*key, priority, applied, when});
      }
      pause(rng);
    }
  }

  Rng rng_;
  NumberedBuffer line_;
  KeyQueue keys_;
};

struct ConcurrentHistory : testing::TestWithParam<std::uint64_t> {
  static constexpr std::uint64_t kParts = 4;
};

INSTANTIATE_TEST_SUITE_P(Parts, ConcurrentHistory,
                         testing::Range(std::uint64_t{1}, ConcurrentHistory::kParts + 1));

TEST_P(ConcurrentHistory, IsExplainedBySomeOrderOfItsCalls) {
  const std::size_t histories = scaled(1000, 50);
  for (std::uint64_t seed = GetParam(); seed <= histories; seed += kParts) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ASSERT_EQ(RecordedThreads(seed).mismatch(), "");
  }
}

/// Tests of `History`. Two items of one writer; each was drawn. The capacity is 1, so item 0 may be
/// evicted once item 1 is committed. Times are pairs {begin, end} of calls.
class HistoryOfTwo : public testing::Test {
 protected:
  static History history(const History::Log& log, std::size_t capacity = 1) {
    History history(SmallOptions{.capacity_steps = capacity});
    history.add(log);
    return history;
  }
  static ItemKey key(std::uint32_t slot) { return ItemKey::make(slot, 0, 7); }

  History::Log log{
      .commits = {{0, 2.0F, {10, 20}}, {1, 3.0F, {30, 40}}},
      .draws = {{{{0, key(0), 1.0}}, SampleStatus::Code::Ok, {22, 25}},
                {{{1, key(1), 1.0}}, SampleStatus::Code::Ok, {50, 60}}},
      .updates = {{key(0), 1.0F, true, {26, 29}}, {key(0), 4.0F, false, {42, 45}}},
      .sizes = {{0, {1, 2}}, {1, {70, 80}}},
  };
};

TEST_F(HistoryOfTwo, ThatIsPossibleIsAccepted) {
  EXPECT_EQ(history(log).first_mismatch(), "");
}

TEST_F(HistoryOfTwo, ThatDrawsAnItemBeforeItsCommitIsRefused) {
  log.draws[1].when = {21, 28};
  EXPECT_NE(history(log).first_mismatch(), "");
}

TEST_F(HistoryOfTwo, ThatConfusesKeysIsRefused) {
  log.draws[1].items[0].key = key(0);
  EXPECT_NE(history(log).first_mismatch(), "");
  log.draws[1].items[0] = {0, key(1), 1.0};
  EXPECT_NE(history(log).first_mismatch(), "");
}

TEST_F(HistoryOfTwo, ThatUpdatesAnItemAfterItWasStaleIsRefused) {
  log.updates.push_back({key(0), 1.0F, true, {46, 47}});
  EXPECT_NE(history(log).first_mismatch(), "");
  log.updates.back().when = {41, 47};
  EXPECT_EQ(history(log).first_mismatch(), "") << "the two updates overlap";
}

TEST_F(HistoryOfTwo, ThatEvictsWithinTheCapacityIsRefused) {
  EXPECT_NE(history(log, 2).first_mismatch(), "");
  log.updates[1].when = {22, 27};
  EXPECT_NE(history(log).first_mismatch(), "");
}

TEST_F(HistoryOfTwo, ThatKeepsAnItemBeyondTheCapacityIsRefused) {
  log.updates.pop_back();
  log.draws.push_back({{{0, key(0), 1.0}}, SampleStatus::Code::Ok, {61, 62}});
  EXPECT_EQ(history(log).first_mismatch(), "") << "one later item is within the capacity of 1";
  log.commits.push_back({2, 1.0F, {50, 55}});
  EXPECT_NE(history(log).first_mismatch(), "");
}

TEST_F(HistoryOfTwo, ThatDrawsByAnOverwrittenOrAZeroPriorityIsRefused) {
  log.updates = {{key(0), 1.0F, true, {26, 29}}};
  log.draws.push_back({{{0, key(0), 0.25}, {1, key(1), 0.75}}, SampleStatus::Code::Ok, {41, 49}});
  EXPECT_EQ(history(log, 2).first_mismatch(), "a size of 1 that should be 2 to 2")
      << "probabilities of 1 / 4 and 3 / 4 fit the priorities 1 and 3";
  log.sizes.pop_back();
  EXPECT_EQ(history(log, 2).first_mismatch(), "");
  log.draws[2].items = {{0, key(0), 0.4}, {1, key(1), 0.6}};
  EXPECT_NE(history(log, 2).first_mismatch(), "")
      << "2 / 5 and 3 / 5 fit the priority 2, which was overwritten by 1";
  log.updates[0].when = {26, 45};
  EXPECT_EQ(history(log, 2).first_mismatch(), "") << "the update and the draw overlap";
  log.commits[1].priority = 0.0F;
  EXPECT_NE(history(log, 2).first_mismatch(), "");
}

TEST_F(HistoryOfTwo, ThatHasAWrongSizeIsRefused) {
  log.sizes[1].size = 0;
  EXPECT_NE(history(log).first_mismatch(), "");
  log.sizes[1].size = 2;
  EXPECT_NE(history(log).first_mismatch(), "");
  log.sizes.clear();
  log.draws.push_back({{}, SampleStatus::Code::TimedOut, {21, 22}});
  EXPECT_NE(history(log).first_mismatch(), "") << "item 0 was committed before the draw";
}

}  // namespace
}  // namespace reprise::test
