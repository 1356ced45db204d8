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

bool locked(base::Mutex& mutex) {
  bool taken = false;
  std::thread([&]() REPRISE_UNCHECKED {
    taken = mutex.try_lock();
    if (taken) {
      mutex.unlock();
    }
  }).join();
  return !taken;
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

TEST(ShardSet, PublishesWhatWasChangedUnderALockWhenItIsReleased) {
  NumberedBuffer line;
  line.append_many(0, 4);
  ShardSet& shards = core_of(line.replay)->shards();
  {
    ShardSet::Lock one(shards, 0);
    one.ingest();
    EXPECT_EQ(shards[0].hints().items(), 0U);
  }
  EXPECT_EQ(shards[0].hints().items(), 4U);
}

TEST(ShardSet, IngestsForWritersThatWaitForAChunkAndOnlyForThem) {
  NumberedBuffer line;
  line.append_many(0, 4);
  ShardSet& shards = core_of(line.replay)->shards();
  { const ShardSet::Lock one(shards, 0); }
  { const ShardSet::LockAll all(shards); }
  EXPECT_EQ(shards[0].hints().items(), 0U) << "nobody waits";
  {
    const std::stop_token never;
    limiter::WaitTerms terms(nullptr, kNoTimeout, never, nullptr);
    const limiter::Wait waiting(terms, &shards.writers_for_chunk, nullptr);
    { const ShardSet::Lock one(shards, 0); }
    EXPECT_EQ(shards[0].hints().items(), 4U);
    line.append(4);
    { const ShardSet::LockAll all(shards); }
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
