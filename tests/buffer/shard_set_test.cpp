#include "buffer/shard_set.hpp"

#include "buffer/buffer_core.hpp"
#include "limiter/wait.hpp"
#include "testing/faults/lock_holder.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/wrapped_selector.hpp"
#include "testing/test.hpp"

namespace reprise::buffer {
namespace {

using test::core_of;
using test::NumberedBuffer;

/// Calls `on_summary` whenever the selector's summary is read.
class NotifyingSelector final : public test::WrappedSelector {
 public:
  NotifyingSelector(std::unique_ptr<ShardSelector> selector,
                    const std::function<void()>& on_summary)
      : WrappedSelector(std::move(selector)), on_summary_(on_summary) {}
  [[nodiscard]] SelectorSummary summary() const noexcept override {
    if (on_summary_) {
      on_summary_();
    }
    return WrappedSelector::summary();
  }

 private:
  const std::function<void()>& on_summary_;
};

/// Whether a thread, maybe this one, holds the mutex. Another thread tries, because a mutex must
/// not be locked twice by one thread.
bool locked(base::Mutex& mutex) {
  bool acquired = false;
  std::thread([&]() REPRISE_UNCHECKED {
    acquired = mutex.try_lock();
    if (acquired) {
      mutex.unlock();
    }
  }).join();
  return !acquired;
}

TEST(ShardSet, PublishesTheHintsOfAllShardsBeforeItReleasesTheFirst) {
  std::function<void()> on_summary;
  const test::Wrapping watched{Uniform{}, [&](std::unique_ptr<ShardSelector> selector) {
                                 return std::make_unique<NotifyingSelector>(std::move(selector),
                                                                            on_summary);
                               }};
  NumberedBuffer line(test::SmallOptions{.selectors = {watched}, .shards = 3});
  ShardSet& shards = core_of(line.replay)->shards();
  int summaries = 0;
  std::optional<ShardSet::LockAll> all(std::in_place, shards);
  for (std::size_t s = 0; s < shards.size(); ++s) {
    // `selector` gives mutable access, so it marks the hints stale.
    (void)(*all)[s].selector(0);
  }
  on_summary = [&] {
    ++summaries;
    EXPECT_TRUE(locked(shards[0].mutex));
  };
  all.reset();
  on_summary = nullptr;
  EXPECT_EQ(summaries, 3);
  EXPECT_FALSE(locked(shards[0].mutex));
}

TEST(ShardSet, PublishesHintsWhenALockIsReleased) {
  NumberedBuffer line;
  line.append_many(0, 4);
  ShardSet& shards = core_of(line.replay)->shards();
  {
    ShardSet::Lock lock(shards, 0);
    lock.ingest();
    EXPECT_EQ(shards[0].hints().items(), 0U);
  }
  EXPECT_EQ(shards[0].hints().items(), 4U);
}

TEST(ShardSet, AnUnlockIngestsOnlyIfWritersWaitForAChunk) {
  NumberedBuffer line;
  line.append_many(0, 4);
  ShardSet& shards = core_of(line.replay)->shards();
  { const ShardSet::Lock lock(shards, 0); }
  { const ShardSet::LockAll lock(shards); }
  EXPECT_EQ(shards[0].hints().items(), 0U) << "no writer waits";
  {
    const std::stop_token never;
    limiter::WaitTerms terms(/*life=*/nullptr, kNoTimeout, never, /*hook=*/nullptr);
    const limiter::Wait waiting(terms, &shards.writers_for_chunk, /*event=*/nullptr);
    { const ShardSet::Lock lock(shards, 0); }
    EXPECT_EQ(shards[0].hints().items(), 4U);
    line.append(4);
    { const ShardSet::LockAll lock(shards); }
    EXPECT_EQ(shards[0].hints().items(), 5U);
  }
}

TEST(ShardSet, VisitsShardsWhoseLockIsFreeBeforeItWaitsForTheOthers) {
  NumberedBuffer line(test::SmallOptions{.shards = 4});
  ShardSet& shards = core_of(line.replay)->shards();
  test::LockHolder holder(shards[0].mutex);
  std::vector<std::size_t> visited;
  shards.visit([](std::size_t s) { return s != 2; },
               [&](std::size_t s, const shard::LockedShard&) {
                 EXPECT_TRUE(locked(shards[s].mutex));
                 visited.push_back(s);
                 if (visited.size() == 2) {
                   holder.release();
                 }
               });
  EXPECT_THAT(visited, testing::ElementsAre(1, 3, 0));
  for (std::size_t s = 0; s < shards.size(); ++s) {
    EXPECT_FALSE(locked(shards[s].mutex));
  }
}

}  // namespace
}  // namespace reprise::buffer
