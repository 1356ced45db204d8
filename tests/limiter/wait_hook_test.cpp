#include "testing/test.hpp"

namespace reprise::test {
namespace {

using Code = SampleStatus::Code;

/// A hook whose answer is a function of the number of times it was asked before. It expects to be
/// asked when the wait begins, and then at most every 50 ms.
class CountedHook final : public WaitHook {
 public:
  explicit CountedHook(std::function<bool(int)> answer) : answer_(std::move(answer)) {}
  bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    EXPECT_EQ(waited == 0ns, asked == 0);
    if (asked != 0) {
      EXPECT_GE(waited, last_ + 50ms);
    }
    last_ = waited;
    return answer_(asked++);
  }
  int asked = 0;

 private:
  std::function<bool(int)> answer_;
  std::chrono::nanoseconds last_{0};
};

/// Options with which only the limiter can hold a writer, because each item is drawn at most once.
Options holding_options() {
  return SmallOptions{.max_times_sampled = 1, .rate_limiter = Queue{8}};
}

TEST(WaitHook, ThatRefusesAtOnceKeepsASamplerFromWaitingAndNoWaitIsCounted) {
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  CountedHook hook([](int) { return false; });
  EXPECT_EQ(sampler.sample(2, {.hook = &hook}).status().code, Code::Stopped);
  EXPECT_EQ(hook.asked, 1);
  EXPECT_EQ(line.replay.stats().samplers_for_items.waits, 0U);
  EXPECT_EQ(line.replay.stats().samplers_for_items.stops, 0U);
  line.append_many(0, 4);
  EXPECT_TRUE(sampler.sample(2, {.hook = &hook})) << "there are items, so no wait is needed";
  EXPECT_EQ(hook.asked, 1) << "the hook was not asked again";
}

TEST(WaitHook, ASamplerWithAHookTimesOutInOneWait) {
  NumberedBuffer line;
  CountedHook hook([](int) { return true; });
  const SampleStatus status =
      as_lvalue(line.replay.sampler()).sample(2, {.timeout = 220ms, .hook = &hook}).status();
  EXPECT_EQ(status.code, Code::TimedOut);
  const WaitStats waits = line.replay.stats().samplers_for_items;
  EXPECT_EQ(waits.waits, 1U);
  EXPECT_EQ(waits.timeouts, 1U);
  EXPECT_GE(waits.longest, 220ms);
}

TEST(WaitHook, IsAskedRepeatedlyInOneWaitOfASamplerAndEndsTheWait) {
  NumberedBuffer line;
  CountedHook hook([](int asked) { return asked < 3; });
  const SampleStatus status = as_lvalue(line.replay.sampler()).sample(2, {.hook = &hook}).status();
  EXPECT_EQ(status.code, Code::Stopped);
  EXPECT_EQ(hook.asked, 4);
  EXPECT_GE(status.waited, 150ms);
  const WaitStats waits = line.replay.stats().samplers_for_items;
  EXPECT_EQ(waits.waits, 1U);
  EXPECT_EQ(waits.stops, 1U);
  EXPECT_EQ(waits.timeouts, 0U);
  EXPECT_EQ(waits.waiting_now, 0U);
}

TEST(WaitHook, MayAppendWhatTheSamplerWaitsFor) {
  NumberedBuffer line;
  CountedHook hook([&](int asked) {
    if (asked == 2) {
      EXPECT_EQ(line.replay.stats().samplers_for_items.waiting_now, 1U);
      EXPECT_GE(line.replay.stats().samplers_for_items.waiting_for, 100ms);
      line.append_many(0, 4);
    }
    return true;
  });
  EXPECT_TRUE(as_lvalue(line.replay.sampler()).sample(2, {.hook = &hook}));
  const WaitStats waits = line.replay.stats().samplers_for_items;
  EXPECT_EQ(waits.waits, 1U);
  EXPECT_EQ(waits.timeouts, 0U);
}

TEST(WaitHook, ThatRefusesAtOnceKeepsAWriterFromWaitingAndNoWaitIsCounted) {
  NumberedBuffer line(holding_options());
  CountedHook hook([](int) { return false; });
  Writer writer = line.replay.writer({.hook = &hook});
  const std::uint64_t committed = line.append_until_held(writer, CommitStatus::Stopped);
  EXPECT_EQ(hook.asked, 1);
  EXPECT_EQ(line.replay.stats().committed_steps, committed);
  EXPECT_EQ(line.replay.stats().writers_for_limiter.waits, 0U);
  hook.asked = 0;
  EXPECT_EQ(writer.commit(), CommitStatus::Stopped);
  expect_steps_add_up(line.replay);
}

TEST(WaitHook, EndsTheWaitOfAWriterWhoseRepeatedCommitSucceeds) {
  NumberedBuffer line(holding_options());
  bool drawing = false;
  Sampler sampler = line.replay.sampler();
  CountedHook hook([&](int asked) {
    if (drawing && asked == 1) {
      EXPECT_TRUE(sampler.sample(8, kNoWait));
    }
    return drawing || asked < 2;
  });
  Writer writer = line.replay.writer({.hook = &hook});
  const std::uint64_t committed = line.append_until_held(writer, CommitStatus::Stopped);
  WaitStats waits = line.replay.stats().writers_for_limiter;
  EXPECT_EQ(waits.waits, 1U);
  EXPECT_EQ(waits.stops, 1U);
  drawing = true;
  hook.asked = 0;
  EXPECT_EQ(writer.commit(), CommitStatus::Committed) << "the hook made room";
  EXPECT_EQ(line.replay.stats().committed_steps, committed + 1);
  waits = line.replay.stats().writers_for_limiter;
  EXPECT_EQ(waits.waits, 2U);
  EXPECT_EQ(waits.stops, 1U);
  EXPECT_EQ(waits.timeouts, 0U);
}

TEST(WaitHook, AWriterWithAHookTimesOutInOneWait) {
  NumberedBuffer line(holding_options());
  CountedHook hook([](int) { return true; });
  Writer writer = line.replay.writer({.timeout = 120ms, .hook = &hook});
  line.append_until_held(writer);
  const WaitStats waits = line.replay.stats().writers_for_limiter;
  EXPECT_EQ(waits.waits, 1U);
  EXPECT_EQ(waits.timeouts, 1U);
  EXPECT_GE(waits.longest, 120ms);
}

}  // namespace
}  // namespace reprise::test
