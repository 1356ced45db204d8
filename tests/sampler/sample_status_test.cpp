#include "testing/faults/hooked_fifo.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

void expect_message_contains(const SampleStatus& status,
                             std::initializer_list<std::string_view> words) {
  const std::string message = status.message();
  for (const std::string_view word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "\"" << word << "\" is not in: " << message;
  }
}

TEST(SampleStatus, SaysTimedOutAndWhatIsMissing) {
  NumberedBuffer line(SmallOptions{.rate_limiter = MinSize{10}});
  line.append_many(0, 6);
  Sampler sampler = line.replay.sampler();
  for (const auto timeout : {0ms, 20ms}) {
    SCOPED_TRACE(timeout.count());
    const SampleResult result = sampler.sample(4, {.timeout = timeout});
    EXPECT_FALSE(result);
    const SampleStatus& status = result.status();
    EXPECT_EQ(status.code, SampleStatus::Code::TimedOut);
    EXPECT_EQ(status.items, 6U);
    EXPECT_EQ(status.needed, 10U);
    EXPECT_FALSE(status.held_by_ratio);
    EXPECT_GE(status.waited, timeout);
    expect_message_contains(status, {"6", "10"});
  }
  const Stats stats = line.replay.stats();
  EXPECT_GE(stats.samplers_for_items.timeouts, 1U);
  EXPECT_GE(stats.samplers_for_items.total, 20ms);
  EXPECT_GE(stats.samplers_for_items.longest, 20ms);
  EXPECT_EQ(stats.samplers_for_items.waiting_now, 0U);
  line.append_many(6, 4);
  EXPECT_TRUE(sampler.sample(4, kNoWait)) << "a timeout leaves no mark";
}

/// The items for which the call waited are cleared before they are drawn, so the call waits again.
TEST(SampleStatus, TellsWhatTheWholeCallWaitedThoughItWaitedTwice) {
  ReplayBuffer* cleared = nullptr;
  NumberedBuffer line(SmallOptions{.selectors = {HookedFifo{[&] {
                                     if (cleared != nullptr) {
                                       std::exchange(cleared, nullptr)->clear();
                                     }
                                   }}}});
  cleared = &line.replay;
  Writer writer = line.replay.writer();
  /// Called at the beginning of a wait, and then every 50 ms.
  class Appends final : public WaitHook {
   public:
    Appends(NumberedBuffer& line, Writer& writer) : line_(line), writer_(writer) {}
    bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
      if (waited >= (first_ ? 200ms : 1ms)) {
        first_ = false;
        line_.append(writer_, 0, End::Terminated);
      }
      return true;
    }

   private:
    NumberedBuffer& line_;
    Writer& writer_;
    bool first_ = true;
  } hook(line, writer);
  const SampleResult one =
      require_batch(as_lvalue(line.replay.sampler()).sample(1, {.hook = &hook}));
  EXPECT_EQ(line.replay.stats().samplers_for_items.waits, 2U);
  EXPECT_GE(one.status().waited, 250ms) << "200 ms, then until the hook's second call";
}

TEST(SampleStatus, SaysThatThereIsNothingToDrawInsteadOfHanging) {
  for (const std::size_t shards : {1U, 4U}) {
    NumberedBuffer line(SmallOptions{.shards = shards});
    line.append_many(0, 20, 0.0F);
    Sampler sampler = line.replay.sampler();
    const SampleResult result = sampler.sample(4);
    EXPECT_FALSE(result);
    EXPECT_EQ(result.status().code, SampleStatus::Code::NothingToDraw);
    EXPECT_EQ(result.status().items, 20U);
    expect_message_contains(result.status(), {"20", "0"});
    line.append(20, 1e-30F);
    const SampleResult now = sampler.sample(4);
    ASSERT_TRUE(now) << "one positive weight is enough";
    EXPECT_TRUE(std::ranges::all_of(now->now(line.id), [](std::uint64_t id) { return id == 20; }));
  }
}

TEST(SampleStatus, SaysHowManyDrawsOfABatchTheWeightsAdmit) {
  for (const std::size_t shards : {1U, 4U}) {
    NumberedBuffer line(SmallOptions{.shards = shards});
    line.append_many(0, 55, [&](std::uint64_t i) { return i % 11 == 0 ? 1.0F : 0.0F; });
    Sampler sampler = line.replay.sampler();
    const SampleOptions different{.draws = Draws::WithoutReplacement};
    const SampleResult nothing = sampler.sample(6, different);
    ASSERT_FALSE(nothing);
    EXPECT_EQ(nothing.status().code, SampleStatus::Code::NothingToDraw);
    EXPECT_EQ(nothing.status().possible, 5U);
    EXPECT_EQ(nothing.status().message(),
              "nothing to draw: 5 of the 6 draws of this batch can be made from 55 items; the "
              "weight of the others is 0");
    const SampleResult all = require_batch(sampler.sample(5, different));
    EXPECT_EQ(all.status().possible, 5U);
  }
}

TEST(SampleStatus, SaysClosed) {
  NumberedBuffer line;
  line.append_many(0, 5);
  Sampler sampler = line.replay.sampler();
  EXPECT_FALSE(line.replay.closed());
  line.replay.close();
  EXPECT_TRUE(line.replay.closed());
  const SampleResult result = sampler.sample(4);
  EXPECT_FALSE(result);
  EXPECT_EQ(result.status().code, SampleStatus::Code::Closed);
  expect_message_contains(result.status(), {"closed"});
  Batch batch = line.replay.make_batch(4);
  EXPECT_EQ(sampler.sample_into(batch, 0, 4).code, SampleStatus::Code::Closed);
  EXPECT_EQ(batch.size(), 0U);
}

}  // namespace
}  // namespace reprise::test
