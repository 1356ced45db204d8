#include "buffer/shard_set.hpp"

#include "buffer/buffer_core.hpp"
#include "limiter/wait.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/wrapped_selector.hpp"
#include "testing/test.hpp"

namespace reprise::buffer {
namespace {

using test::core_of;
using test::Line;

/// Calls `asked` whenever the selector's summary is read.
class Watched final : public test::WrappedSelector {
 public:
  Watched(std::unique_ptr<ShardSelector> selector, const std::function<void()>& asked)
      : WrappedSelector(std::move(selector)), asked_(asked) {}
  [[nodiscard]] SelectorSummary summary() const noexcept override {
    if (asked_) {
      asked_();
    }
    return WrappedSelector::summary();
  }

 private:
  const std::function<void()>& asked_;
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
  std::function<void()> asked;
  const test::Wrapping watched{Uniform{}, [&](std::unique_ptr<ShardSelector> selector) {
                                 return std::make_unique<Watched>(std::move(selector), asked);
                               }};
  Line line(test::Small{.selectors = {watched}, .shards = 3});
  ShardSet& shards = core_of(line.replay)->shards();
  int summaries = 0;
  std::optional<ShardSet::All> all(std::in_place, shards);
  for (std::size_t s = 0; s < shards.size(); ++s) {
    // `selector` gives mutable access, so it marks the hints stale.
    (void)(*all)[s].selector(0);
  }
  asked = [&] {
    ++summaries;
    EXPECT_TRUE(locked(shards[0].mutex));
  };
  all.reset();
  asked = nullptr;
  EXPECT_EQ(summaries, 3);
  EXPECT_FALSE(locked(shards[0].mutex));
}

TEST(ShardSet, PublishesWhatWasChangedUnderALockWhenItIsReleased) {
  Line line;
  line.append_many(0, 4);
  ShardSet& shards = core_of(line.replay)->shards();
  {
    ShardSet::One one(shards, 0);
    one.ingest();
    EXPECT_EQ(shards[0].hints().items(), 0U);
  }
  EXPECT_EQ(shards[0].hints().items(), 4U);
}

TEST(ShardSet, IngestsForWritersThatWaitForAChunkAndOnlyForThem) {
  Line line;
  line.append_many(0, 4);
  ShardSet& shards = core_of(line.replay)->shards();
  { const ShardSet::One one(shards, 0); }
  { const ShardSet::All all(shards); }
  EXPECT_EQ(shards[0].hints().items(), 0U) << "nobody waits";
  {
    const std::stop_token never;
    limiter::WaitTerms terms(nullptr, kNoTimeout, never, nullptr);
    const limiter::Wait waiting(terms, &shards.writers_for_chunk, nullptr);
    { const ShardSet::One one(shards, 0); }
    EXPECT_EQ(shards[0].hints().items(), 4U);
    line.append(4);
    { const ShardSet::All all(shards); }
    EXPECT_EQ(shards[0].hints().items(), 5U);
  }
}

}  // namespace
}  // namespace reprise::buffer
