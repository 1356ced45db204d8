#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

/// A selector is called per run or per batch, never per item, as `ShardSelector` promises.
namespace reprise::test {
namespace {

constexpr std::size_t kItems = 1000;
constexpr std::size_t kShards = 4;

/// `Proportional` in one shard, counting the calls.
class CountedSelector : public ShardSelector {
 public:
  CountedSelector(std::unique_ptr<ShardSelector> selector, std::atomic<std::size_t>& calls)
      : selector_(std::move(selector)), calls_(calls) {}

  void insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept override {
    ++calls_;
    selector_->insert(run, other_shards);
  }
  void erase(std::uint32_t first, std::size_t count) noexcept override {
    ++calls_;
    selector_->erase(first, count);
  }
  [[nodiscard]] SelectorSummary summary() const noexcept override { return selector_->summary(); }
  [[nodiscard]] double sum(std::uint32_t first, std::size_t count) const noexcept override {
    ++calls_;
    return selector_->sum(first, count);
  }
  void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
            std::span<float> weights) const noexcept override {
    ++calls_;
    selector_->draw(targets, leaves, weights);
  }
  [[nodiscard]] bool all_positive(std::span<const std::uint32_t> leaves) const noexcept override {
    ++calls_;
    return selector_->all_positive(leaves);
  }
  void update(std::span<const std::uint32_t> leaves,
              std::span<const float> weights) noexcept override {
    ++calls_;
    selector_->update(leaves, weights);
  }
  void hide(std::span<const std::uint32_t> leaves) noexcept override {
    ++calls_;
    selector_->hide(leaves);
  }
  void show(std::span<const std::uint32_t> leaves,
            std::span<const float> weights) noexcept override {
    ++calls_;
    selector_->show(leaves, weights);
  }

 private:
  const std::unique_ptr<ShardSelector> selector_;
  std::atomic<std::size_t>& calls_;
};

template <class Wrapped>
struct CountedAs {
  std::shared_ptr<std::atomic<std::size_t>> calls = std::make_shared<std::atomic<std::size_t>>(0);

  class Rule final : public SelectorRule {
   public:
    explicit Rule(std::shared_ptr<std::atomic<std::size_t>> calls)
        : rule_(Proportional{.alpha = 1.0F}.make_selector_rule()), calls_(std::move(calls)) {}
    void weigh(std::span<const float> priorities,
               std::span<float> weights) const noexcept override {
      rule_->weigh(priorities, weights);
    }
    [[nodiscard]] std::size_t bytes(std::size_t leaves) const noexcept override {
      return rule_->bytes(leaves);
    }
    [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(
        std::size_t leaves) const override {
      return std::make_unique<Wrapped>(rule_->make_shard_selector(leaves), *calls_);
    }

   private:
    const std::unique_ptr<SelectorRule> rule_;
    const std::shared_ptr<std::atomic<std::size_t>> calls_;
  };
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const {
    return std::make_unique<Rule>(calls);
  }
};

using Counted = CountedAs<CountedSelector>;

/// Calls for a batch of n and the update of its items.
std::size_t calls_for(std::size_t n, Draws draws, std::uint32_t max_times_sampled) {
  const Counted counted;
  Line line(Small{.capacity_steps = kItems,
                  .selectors = {counted},
                  .max_times_sampled = max_times_sampled,
                  .shards = kShards});
  line.append_many(0, kItems);
  EXPECT_EQ(line.replay.size(), kItems);
  const std::size_t before = counted.calls->load();
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = sampler.sample(n, {.draws = draws, .timeout = {}});
  EXPECT_TRUE(batch) << batch.status().message();
  if (batch) {
    line.replay.update_priorities(batch->keys(), std::vector<float>(n, 2.0F));
  }
  return counted.calls->load() - before;
}

TEST(SelectorCalls, DoNotGrowWithTheBatch) {
  for (const Draws draws : {Draws::Stratified, Draws::Independent, Draws::WithoutReplacement}) {
    for (const std::uint32_t limit : {0U, 3U}) {
      SCOPED_TRACE(testing::Message()
                   << "draws " << static_cast<int>(draws) << ", limit " << limit);
      const std::size_t few = calls_for(5, draws, limit);
      const std::size_t many = calls_for(500, draws, limit);
      EXPECT_GT(few, 0U);
      // A hundred times the items: some rounds more where items may not repeat, in 4 shards.
      EXPECT_LT(many, few + 200);
    }
  }
}

#ifdef REPRISE_DCHECK

/// Half of every weight lies at the front and the other half behind all others: two intervals.
class SplitSelector final : public CountedSelector {
 public:
  using CountedSelector::CountedSelector;
  void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
            std::span<float> weights) const noexcept override {
    const double total = summary().total;
    for (double& target : targets) {
      target = target < total / 2 ? 2 * target : 2 * target - total;
    }
    CountedSelector::draw(targets, leaves, weights);
  }
};

TEST(SelectorCalls, ALeafWithTwoIntervalsStopsABuildWithInternalChecks) {
  const auto draw = [] {
    Line line(Small{.selectors = {CountedAs<SplitSelector>{}}});
    line.append_many(0, 8);
    static_cast<void>(line.replay.sampler().sample(64));
  };
  EXPECT_DEATH(draw(), "one_interval_each");
}

#endif

}  // namespace
}  // namespace reprise::test
