#include "testing/fixtures/wrapped_selector.hpp"
#include "testing/test.hpp"

/// `ShardSelector` promises that its functions are called once per run or batch, not once per item.
namespace reprise::test {
namespace {

constexpr std::size_t kItems = 1000;
constexpr std::size_t kShards = 4;

/// A shard selector that counts the calls of its functions.
class CountedSelector : public WrappedSelector {
 public:
  CountedSelector(std::unique_ptr<ShardSelector> selector, std::atomic<std::size_t>& calls)
      : WrappedSelector(std::move(selector)), calls_(calls) {}

  void insert(const ItemRun& run, const SelectorSummary& others) noexcept override {
    ++calls_;
    WrappedSelector::insert(run, others);
  }
  void erase(std::uint32_t first, std::size_t count) noexcept override {
    ++calls_;
    WrappedSelector::erase(first, count);
  }
  [[nodiscard]] double sum(std::uint32_t first, std::size_t count) const noexcept override {
    ++calls_;
    return WrappedSelector::sum(first, count);
  }
  void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
            std::span<float> weights) const noexcept override {
    ++calls_;
    WrappedSelector::draw(targets, leaves, weights);
  }
  [[nodiscard]] bool all_positive(std::span<const std::uint32_t> leaves) const noexcept override {
    ++calls_;
    return WrappedSelector::all_positive(leaves);
  }
  void update(std::span<const std::uint32_t> leaves,
              std::span<const float> weights) noexcept override {
    ++calls_;
    WrappedSelector::update(leaves, weights);
  }

 private:
  std::atomic<std::size_t>& calls_;
};

template <class Counted>
Selector counted_selector(std::atomic<std::size_t>& calls) {
  return Wrapping{Proportional{.alpha = 1.0F}, [&calls](std::unique_ptr<ShardSelector> selector) {
                    return std::make_unique<Counted>(std::move(selector), calls);
                  }};
}

/// Counts the calls of shard selectors for one batch of n items and the update of their priorities.
std::size_t calls_for(std::size_t n, Draws draws, std::uint32_t max_times_sampled) {
  std::atomic<std::size_t> calls = 0;
  NumberedBuffer line(SmallOptions{.capacity_steps = kItems,
                                   .selectors = {counted_selector<CountedSelector>(calls)},
                                   .max_times_sampled = max_times_sampled,
                                   .shards = kShards});
  line.append_many(0, kItems);
  EXPECT_EQ(line.replay.size(), kItems);
  const std::size_t before = calls.load();
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = sampler.sample(n, {.draws = draws, .timeout = {}});
  EXPECT_TRUE(batch) << batch.status().message();
  if (batch) {
    line.replay.update_priorities(batch->keys(), std::vector<float>(n, 2.0F));
  }
  return calls.load() - before;
}

TEST(SelectorCalls, DoNotGrowWithTheBatch) {
  for (const Draws draws : {Draws::Stratified, Draws::Independent, Draws::WithoutReplacement}) {
    for (const std::uint32_t limit : {0U, 3U}) {
      SCOPED_TRACE(testing::Message()
                   << "draws " << static_cast<int>(draws) << ", limit " << limit);
      const std::size_t few = calls_for(5, draws, limit);
      const std::size_t many = calls_for(500, draws, limit);
      EXPECT_GT(few, 0U);
      // A batch of a hundred times as many items needs only a few more rounds over the 4 shards,
      // and only if items may not repeat.
      EXPECT_LT(many, few + 200);
    }
  }
}

#ifdef REPRISE_DCHECK

/// Draws by both halves of the total as if each were the whole, so each leaf has two intervals.
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
    std::atomic<std::size_t> calls = 0;
    NumberedBuffer line(SmallOptions{.selectors = {counted_selector<SplitSelector>(calls)}});
    line.append_many(0, 8);
    (void)as_lvalue(line.replay.sampler()).sample(64);
  };
  EXPECT_DEATH(draw(), "equal_leaves_are_adjacent");
}

#endif

}  // namespace
}  // namespace reprise::test
