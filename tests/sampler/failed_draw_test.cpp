#include "buffer/buffer_core.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/wrapped_selector.hpp"
#include "testing/test.hpp"

/// A draw that fails in the middle must leave no pin, and no count that holds other calls.
namespace reprise::test {
namespace {

using Code = SampleStatus::Code;

/// The calls that a shard selector still answers before its items seem to have no weight.
struct RemainingCalls {
  std::atomic<std::size_t> draws = std::numeric_limits<std::size_t>::max();
  std::atomic<std::size_t> looks = std::numeric_limits<std::size_t>::max();  ///< `all_positive`.
};

/// A shard selector whose items lose their weight after the remaining calls, as if an update came
/// while a draw holds none of the shards' locks.
class Vanishing final : public WrappedSelector {
 public:
  Vanishing(std::unique_ptr<ShardSelector> uniform, RemainingCalls& left)
      : WrappedSelector(std::move(uniform)), left_(left) {}
  [[nodiscard]] SelectorSummary summary() const noexcept override {
    return left_.draws == 0 ? SelectorSummary{} : WrappedSelector::summary();
  }
  void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
            std::span<float> weights) const noexcept override {
    --left_.draws;
    WrappedSelector::draw(targets, leaves, weights);
  }
  [[nodiscard]] bool all_positive(std::span<const std::uint32_t> leaves) const noexcept override {
    if (left_.looks == 0) {
      return false;
    }
    --left_.looks;
    return WrappedSelector::all_positive(leaves);
  }

 private:
  RemainingCalls& left_;
};

Options options_with(const Selector& selector, std::size_t shards) {
  return SmallOptions{.selectors = {selector}, .shards = shards};
}

class FailedDraw : public testing::Test {
 protected:
  /// Fails if a chunk is still pinned, because it could not be evicted.
  static void expect_every_chunk_can_be_evicted(NumberedBuffer& line, Writer& writer) {
    line.append_many(writer, 1000, 500);
    EXPECT_EQ(line.replay.size(), 64U);
    EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
  }

  std::array<RemainingCalls, 2> left_;
  std::size_t made_ = 0;
  const Selector vanishing_ =
      Wrapping{Uniform{}, [this](std::unique_ptr<ShardSelector> uniform) {
                 return std::make_unique<Vanishing>(std::move(uniform), left_.at(made_++));
               }};
};

TEST_F(FailedDraw, AfterFreshItemsLeavesNoPins) {
  NumberedBuffer line(options_with(vanishing_, 1));
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 20);
  left_[0].draws = 0;
  EXPECT_EQ(as_lvalue(line.replay.sampler({.fresh = 0.5F})).sample(8, kNoWait).status().code,
            Code::NothingToDraw);
  left_[0].draws = 1000;
  expect_every_chunk_can_be_evicted(line, writer);
}

TEST_F(FailedDraw, InItsSecondRoundLeavesNoPinsOfTheFirst) {
  NumberedBuffer line(options_with(vanishing_, 2));
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 40);
  ASSERT_EQ(line.replay.size(), 40U);
  // The hints, which are read without a lock, still show weight in both shards.
  left_[0].draws = 1;
  left_[1].draws = 0;
  EXPECT_EQ(as_lvalue(line.replay.sampler()).sample(8, kNoWait).status().code, Code::NothingToDraw);
  EXPECT_EQ(left_[0].draws, 0U) << "the first round drew";
  left_[0].draws = left_[1].draws = 1000;
  expect_every_chunk_can_be_evicted(line, writer);
}

TEST_F(FailedDraw, OfAnEpochLeavesNoPinsOfItsFirstItems) {
  NumberedBuffer line(options_with(vanishing_, 1));
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 4);
  ASSERT_EQ(line.replay.size(), 4U);
  left_[0].looks = 1;
  SampleOptions epoch = kNoWait;
  epoch.draws = Draws::Epoch;
  EXPECT_EQ(as_lvalue(line.replay.sampler()).sample(6, epoch).status().code, Code::NothingToDraw);
  EXPECT_EQ(left_[0].looks, 0U) << "the first pass drew";
  left_[0].looks = 1000;
  expect_every_chunk_can_be_evicted(line, writer);
}

TEST_F(FailedDraw, WakesTheSamplersThatItsCountHeld) {
  NumberedBuffer line(
      SmallOptions{.rate_limiter = SampleToInsertRatio{
                       .samples_per_insert = 1.0, .min_size = 1, .error_buffer = 8.0}});
  line.append_many(0, 4, 0.0F);
  ASSERT_EQ(line.replay.size(), 4U);
  const base::Event::Registration sleeper(core_of(line.replay)->items_event);
  const std::uint32_t ticket = sleeper.ticket();
  EXPECT_EQ(as_lvalue(line.replay.sampler()).sample(4, kNoWait).status().code, Code::NothingToDraw);
  EXPECT_NE(sleeper.ticket(), ticket);
}

TEST(DrawnBatch, OfAQueueWakesTheSamplersThatItsReservationHeld) {
  NumberedBuffer line(SmallOptions{.max_times_sampled = 2, .rate_limiter = Queue{4}});
  line.append_many(0, 4);
  ASSERT_EQ(line.replay.size(), 4U);
  const base::Event::Registration sleeper(core_of(line.replay)->items_event);
  const std::uint32_t ticket = sleeper.ticket();
  // Each item may be drawn once more.
  ASSERT_TRUE(as_lvalue(line.replay.sampler()).sample(4, kNoWait));
  EXPECT_NE(sleeper.ticket(), ticket);
}

}  // namespace
}  // namespace reprise::test
