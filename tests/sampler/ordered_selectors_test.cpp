#include "base/mutex.hpp"
#include "buffer/buffer_core.hpp"
#include "testing/faults/hooked_fifo.hpp"
#include "testing/faults/lock_holder.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

Options ordered_options(std::size_t shards, Selector selector) {
  return SmallOptions{.capacity_steps = 200, .selectors = {std::move(selector)}, .shards = shards};
}

TEST(OrderedSelectors, AnItemDecidedDuringADrawWaitsForTheOneBeforeIt) {
  std::function<void()> before_draw;
  Options options = ordered_options(2, HookedFifo{[&] { before_draw(); }});
  // Under this limiter, a draw of more items than the buffer has fails at once.
  options.rate_limiter = Unlimited{};
  NumberedBuffer line(options);
  shard::Shard& first = core_of(line.replay)->shards()[0];
  shard::Shard& second = core_of(line.replay)->shards()[1];
  Writer to_first = line.replay.writer();
  Writer to_second = line.replay.writer();
  line.append(to_first, 0);
  line.append(to_second, 1);
  ASSERT_EQ(line.replay.size(), 2U);
  ASSERT_EQ(first.hints().items(), 1U);

  std::optional<LockHolder> holder;
  before_draw = [&] {
    line.append(to_first, 2);
    holder.emplace(second.mutex);
  };
  Sampler sampler = line.replay.sampler();
  std::jthread learner([&] {
    const SampleResult batch = require_batch(sampler.sample(4, kNoWait));
    EXPECT_TRUE(std::ranges::equal(batch->now(line.action), std::vector{0U, 1U, 2U, 3U}));
  });
  yield_while([&] { return first.hints().items() != 2; });
  // The sampler has ingested the first shard, and waits for the lock of the second.
  { const base::MutexLock ingested(first.mutex); }
  line.append(to_first, 3);
  line.append(to_second, 4);
  holder->release();
}

TEST(OrderedSelectors, RefuseOptionsByTheirOwnNames) {
  for (const float constant : {-1.0F, std::numeric_limits<float>::infinity()}) {
    expect_refusal([&] { (void)MaxHeap{.initial_constant = constant}.make_selector_rule(); },
                   {"MaxHeap::initial_constant", "allowed: "});
    expect_refusal([&] { (void)MinHeap{.initial_constant = constant}.make_selector_rule(); },
                   {"MinHeap::initial_constant", "allowed: "});
  }
}

}  // namespace
}  // namespace reprise::test
