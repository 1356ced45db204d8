#include "buffer/shard_set.hpp"

#include <reprise/reprise.hpp>

#include "buffer/buffer_core.hpp"
#include "limiter/wait.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/line.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>

namespace reprise::buffer {
namespace {

using test::core_of;
using test::Line;

/// Weighs nothing, and calls a function whenever it is asked for its summary.
class WatchedSelector final : public ShardSelector {
 public:
  explicit WatchedSelector(const std::function<void()>& asked) : asked_(asked) {}
  void insert(const ItemRun&, const SelectorSummary&) noexcept override {}
  void erase(std::uint32_t, std::size_t) noexcept override {}
  [[nodiscard]] SelectorSummary summary() const noexcept override {
    if (asked_) {
      asked_();
    }
    return {};
  }
  [[nodiscard]] double sum(std::uint32_t, std::size_t) const noexcept override { return 0.0; }
  void draw(std::span<double>, std::span<std::uint32_t>, std::span<float>) const noexcept override {
  }
  [[nodiscard]] bool all_positive(std::span<const std::uint32_t>) const noexcept override {
    return false;
  }
  void update(std::span<const std::uint32_t>, std::span<const float>) noexcept override {}

 private:
  const std::function<void()>& asked_;
};

/// `asked` outlives the buffer.
struct Watched {
  const std::function<void()>* asked;

  class Rule final : public SelectorRule {
   public:
    explicit Rule(const std::function<void()>& asked) : asked_(asked) {}
    [[nodiscard]] std::size_t bytes(std::size_t) const noexcept override { return 0; }
    [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(std::size_t) const override {
      return std::make_unique<WatchedSelector>(asked_);
    }

   private:
    const std::function<void()>& asked_;
  };
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const {
    return std::make_unique<Rule>(*asked);
  }
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
  Line line(test::Small{.selectors = {Watched{&asked}}, .shards = 3});
  ShardSet& shards = core_of(line.replay)->shards();
  int summaries = 0;
  std::optional<ShardSet::All> all(std::in_place, shards);
  for (std::size_t s = 0; s < shards.size(); ++s) {
    static_cast<void>((*all)[s].selector(0));  // Whoever has it may change it.
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
