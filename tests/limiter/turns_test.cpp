#include "limiter/turns.hpp"

#include "buffer/buffer_core.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/test.hpp"

// Of all calls that wait for the limiter, the call that has waited longest passes first (I12).
namespace reprise::test {
namespace {

using Code = SampleStatus::Code;

struct LimiterCase {
  std::string name;
  RateLimiter limiter;
  std::uint32_t max_times_sampled = 0;
  Draws draws = Draws::Stratified;
  /// Inserts that a writer books at a time; 0 if the limiter never holds writers.
  std::size_t block = 0;

  friend std::ostream& operator<<(std::ostream& to, const LimiterCase& c) { return to << c.name; }
};

/// Limiters of every kind under which samplers compete for draws. Each step allows one draw. A
/// block of the ratio is 512 / (2 * 8 writers) inserts, of the queue 1000 / (2 * 8 writers).
std::vector<LimiterCase> cases() {
  const SampleToInsertRatio ratio{.samples_per_insert = 1.0, .min_size = 1, .error_buffer = 512.0};
  return {{"Ratio", ratio, 0, Draws::Stratified, 32},
          {"RatioWithoutReplacement", ratio, 0, Draws::WithoutReplacement, 32},
          {"RatioWithLimit", ratio, 1, Draws::Stratified, 32},
          {"Queue", Queue{1000}, 1, Draws::Stratified, 62},
          {"MinSizeWithLimit", MinSize{1}, 1}};
}

std::size_t waiting_samplers(const ReplayBuffer& replay) {
  const Stats stats = replay.stats();
  return stats.samplers_for_items.waiting_now + stats.samplers_for_limiter.waiting_now;
}
std::size_t waiting_writers(const ReplayBuffer& replay) {
  return replay.stats().writers_for_limiter.waiting_now;
}

/// Ends the wait of its call once `refuse` is set.
class EndingHook final : public WaitHook {
 public:
  bool keep_waiting(std::chrono::nanoseconds /*waited*/) noexcept override { return !refuse; }
  std::atomic<bool> refuse = false;
};

/// A thread that calls `sample`. The constructor returns once the call waits.
class WaitingSample {
 public:
  WaitingSample(NumberedBuffer& line, std::size_t n, SampleOptions options) {
    const std::size_t before = waiting_samplers(line.replay);
    options.stop = stop_.get_token();
    thread_ = std::jthread([this, &line, n, options] {
      status_ = as_lvalue(line.replay.sampler()).sample(n, options).status();
    });
    yield_while([&] { return waiting_samplers(line.replay) == before; });
  }
  void stop() { stop_.request_stop(); }
  Code join() {
    thread_.join();
    return status_.code;
  }

 private:
  SampleStatus status_;
  std::stop_source stop_;
  std::jthread thread_;
};

/// A thread that commits `steps` steps. The constructor returns once a commit waits.
class WaitingWriter {
 public:
  WaitingWriter(NumberedBuffer& line, std::size_t steps) {
    const std::size_t before = waiting_writers(line.replay);
    thread_ = std::jthread([this, &line, steps] {
      Writer writer = line.replay.writer({.stop = stop_.get_token()});
      for (std::size_t i = 0; i < steps && status_ == CommitStatus::Committed; ++i) {
        status_ = line.append(writer, i);
      }
    });
    yield_while([&] { return waiting_writers(line.replay) == before; });
  }
  void stop() { stop_.request_stop(); }
  CommitStatus join() {
    thread_.join();
    return status_;
  }

 private:
  CommitStatus status_ = CommitStatus::Committed;
  std::stop_source stop_;
  std::jthread thread_;
};

class TurnsOf : public testing::TestWithParam<LimiterCase> {
 protected:
  TurnsOf() : line(options()), how{.draws = GetParam().draws, .timeout = 0ns} {}

  static Options options() {
    return SmallOptions{.capacity_steps = 20'000,
                        .max_times_sampled = GetParam().max_times_sampled,
                        .rate_limiter = GetParam().limiter,
                        .max_writers = 8,
                        .shards = 2};
  }
  /// Draws as many items as the limiter lets through. Returns their number.
  std::size_t draw_all() {
    Sampler sampler = line.replay.sampler();
    std::size_t drawn = 0;
    for (const std::size_t n : {32U, 1U}) {
      while (sampler.sample(n, kNoWait)) {
        drawn += n;
      }
    }
    return drawn;
  }
  /// Appends `steps` more steps, each of which allows one draw.
  void append_steps(std::size_t steps) {
    if (!writer) {
      writer = std::make_unique<Writer>(line.replay.writer());
    }
    line.append_many(*writer, next_, steps);
    next_ += steps;
  }
  /// Makes all allowed draws, so that samplers wait from now on.
  void use_up_draws() {
    append_steps(32);
    draw_all();
    how.timeout = kNoTimeout;
  }
  /// Makes all allowed inserts, so that writers wait from now on.
  void use_up_inserts() {
    Writer first = line.replay.writer({.timeout = 0ns});
    while (line.append(first, next_) == CommitStatus::Committed) {
      ++next_;
    }
  }
  /// Makes room for a block of inserts by drawing as many items.
  void draw_a_block() {
    ASSERT_TRUE(as_lvalue(line.replay.sampler()).sample(GetParam().block, kNoWait));
  }

  NumberedBuffer line;
  std::unique_ptr<Writer> writer;
  SampleOptions how;

 private:
  std::uint64_t next_ = 0;
};

/// A hook is asked when a wait begins. A call that was not in line by then might be overtaken.
TEST_P(TurnsOf, ACallIsInLineBeforeItsWaitBegins) {
  class LineObserver final : public WaitHook {
   public:
    explicit LineObserver(const limiter::Turns& turns) : turns_(turns) {}
    bool keep_waiting(std::chrono::nanoseconds /*waited*/) noexcept override {
      in_line = turns_.anybody();
      return false;
    }
    bool in_line = false;

   private:
    const limiter::Turns& turns_;
  };
  use_up_draws();
  limiter::Turns& samplers = core_of(line.replay)->sampler_turns;
  LineObserver sees_sampler(samplers);
  how.hook = &sees_sampler;
  EXPECT_EQ(as_lvalue(line.replay.sampler()).sample(32, how).status().code, Code::Stopped);
  EXPECT_TRUE(sees_sampler.in_line);
  EXPECT_FALSE(samplers.anybody());
  if (GetParam().block != 0) {
    use_up_inserts();
    limiter::Turns& writers = core_of(line.replay)->writer_turns;
    LineObserver sees_writer(writers);
    Writer held = line.replay.writer({.hook = &sees_writer});
    EXPECT_EQ(line.append(held, 0), CommitStatus::Stopped);
    EXPECT_TRUE(sees_writer.in_line);
    EXPECT_FALSE(writers.anybody());
  }
}

TEST_P(TurnsOf, SamplersPassInTheOrderInWhichTheyBeganToWait) {
  use_up_draws();
  std::vector<std::unique_ptr<WaitingSample>> calls;
  const std::vector<std::size_t> batches = {256, 32, 64, 32, 128};
  for (const std::size_t n : batches) {
    calls.push_back(std::make_unique<WaitingSample>(line, n, how));
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    append_steps(batches[i]);
    EXPECT_EQ(calls[i]->join(), Code::Ok);
    EXPECT_EQ(waiting_samplers(line.replay), calls.size() - i - 1) << "after " << i;
  }
  EXPECT_EQ(draw_all(), 0U);
}

TEST_P(TurnsOf, StepsForSeveralBatchesLetAllTheirSamplersPass) {
  use_up_draws();
  std::vector<std::unique_ptr<WaitingSample>> calls;
  for (int i = 0; i < 8; ++i) {
    calls.push_back(std::make_unique<WaitingSample>(line, 32, how));
  }
  append_steps(256);
  for (const auto& call : calls) {
    EXPECT_EQ(call->join(), Code::Ok);
  }
  EXPECT_EQ(draw_all(), 0U);
}

TEST_P(TurnsOf, ASamplerWithoutTimeoutIsToldThatOthersWait) {
  use_up_draws();
  WaitingSample first(line, 256, how);
  append_steps(32);
  Sampler sampler = line.replay.sampler();
  const SampleStatus status = sampler.sample(32, kNoWait).status();
  EXPECT_EQ(status.code, Code::TimedOut);
  EXPECT_TRUE(status.held_by_turn);
  EXPECT_FALSE(status.held_by_ratio || status.held_by_queue);
  EXPECT_NE(status.message().find("other calls have waited longer"), std::string::npos)
      << status.message();
  first.stop();
  EXPECT_EQ(first.join(), Code::Stopped);
  EXPECT_TRUE(sampler.sample(32, kNoWait)) << "nobody waits any longer";
}

TEST_P(TurnsOf, TheNextSamplerPassesWhenThoseBeforeItGiveUp) {
  use_up_draws();
  EndingHook hook;
  SampleOptions hooked = how;
  hooked.hook = &hook;
  SampleOptions timed = how;
  timed.timeout = 1ms;
  WaitingSample stopped(line, 256, how);
  WaitingSample refused(line, 256, hooked);
  EXPECT_EQ(as_lvalue(line.replay.sampler()).sample(256, timed).status().code, Code::TimedOut);
  WaitingSample last(line, 32, how);
  append_steps(32);
  hook.refuse = true;
  EXPECT_EQ(refused.join(), Code::Stopped) << "the second in line";
  stopped.stop();
  EXPECT_EQ(stopped.join(), Code::Stopped) << "the first in line";
  EXPECT_EQ(last.join(), Code::Ok);
}

TEST_P(TurnsOf, WritersPassInTheOrderInWhichTheyBeganToWait) {
  if (GetParam().block == 0) {
    return;
  }
  use_up_inserts();
  // A draw frees room of a queue shard by shard, so one writer may book a part of a block, and
  // another writer the rest. So these writers need only one step each.
  const bool in_parts = std::holds_alternative<Queue>(GetParam().limiter);
  std::vector<std::unique_ptr<WaitingWriter>> writers;
  for (int i = 0; i < 5; ++i) {
    writers.push_back(std::make_unique<WaitingWriter>(line, in_parts ? 1 : GetParam().block));
  }
  for (std::size_t i = 0; i < writers.size(); ++i) {
    draw_a_block();
    EXPECT_EQ(writers[i]->join(), CommitStatus::Committed);
    if (!in_parts) {
      EXPECT_EQ(waiting_writers(line.replay), writers.size() - i - 1) << "after " << i;
    }
  }
}

TEST_P(TurnsOf, TheNextWriterPassesWhenThoseBeforeItGiveUp) {
  if (GetParam().block == 0) {
    return;
  }
  use_up_inserts();
  WaitingWriter first(line, GetParam().block);
  WaitingWriter second(line, GetParam().block);
  WaitingWriter third(line, GetParam().block);
  second.stop();
  EXPECT_EQ(second.join(), CommitStatus::Stopped);
  first.stop();
  EXPECT_EQ(first.join(), CommitStatus::Stopped);
  draw_a_block();
  EXPECT_EQ(third.join(), CommitStatus::Committed);
}

/// A call may be admitted at the moment when it gives up. It must then return its draws or inserts,
/// so that the balance counts only steps and draws that happened.
TEST_P(TurnsOf, CallsThatGiveUpReturnTheirDrawsAndInserts) {
  for (std::uint64_t seed = 0; seed < scaled(20, 3); ++seed) {
    NumberedBuffer many(options());
    std::atomic<std::size_t> drawn = 0;
    std::atomic<int> appending = 3;
    std::vector<std::jthread> threads;
    start(threads, 4, [&](std::uint64_t i) {
      Rng rng(10 * seed + i);
      Sampler sampler = many.replay.sampler();
      while (appending != 0) {
        const std::size_t n = rng.between(1, 200);
        const std::chrono::microseconds timeout(rng.between(0, 300));
        drawn += sampler.sample(n, {.draws = GetParam().draws, .timeout = timeout}) ? n : 0;
      }
    });
    start(threads, 3, [&](std::uint64_t i) {
      Rng rng(10 * seed + 5 + i);
      Writer appends = many.replay.writer({.timeout = std::chrono::microseconds(50 * i)});
      for (std::uint64_t number = 0; number < 3'000;) {
        if (many.append(appends, number) == CommitStatus::Committed) {
          ++number;
        }
      }
      --appending;
    });
    threads.clear();
    const std::uint64_t committed = many.replay.stats().committed_steps;
    ASSERT_EQ(committed, 9'000U);
    Sampler last = many.replay.sampler();
    SampleResult result = last.sample(1, kNoWait);
    for (; result; result = last.sample(1, kNoWait)) {
      ++drawn;
    }
    if (GetParam().max_times_sampled == 1) {
      EXPECT_EQ(drawn, committed) << "seed " << seed;
    } else {
      // The first step allows no draw, because `min_size` is 1.
      EXPECT_EQ(result.status().balance.ahead,
                static_cast<double>(drawn) - static_cast<double>(committed - 1))
          << "seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TurnsOf, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST(Turns, AMinSizeLetsASmallBatchPassBeforeALargerOneThatWaits) {
  NumberedBuffer line(SmallOptions{.rate_limiter = MinSize{8}});
  const WaitingSample large(line, 32, {.draws = Draws::WithoutReplacement});
  WaitingSample small(line, 8, {});
  line.append_many(0, 8);
  EXPECT_EQ(small.join(), Code::Ok);
  line.replay.close();
}

/// A place in line that counts how often the gate was asked for it.
struct Asked : limiter::Turns::Turn {
  int asked = 0;
};

/// A gate that admits the next `room` calls.
struct CountingGate {
  bool operator()(limiter::Turns::Turn& turn) {
    ++static_cast<Asked&>(turn).asked;
    return room != 0 && room-- != 0;
  }
  int room = 0;
};

/// Puts a call with a timeout of 0 in line. Returns whether the call is the first, or was admitted.
bool has_turn(limiter::Turns& turns, limiter::Turns::Turn& turn) {
  const std::stop_token never;
  limiter::WaitTerms terms(nullptr, 0ns, never, nullptr);
  limiter::Wait wait(terms, nullptr, nullptr);
  return !turns.wait_for_turn(turn, wait);
}

TEST_P(TurnsOf, AWriterStandsInLineBehindAWriterThatWaits) {
  if (GetParam().block == 0) {
    return;
  }
  limiter::Turns& turns = core_of(line.replay)->writer_turns;
  Asked waiting;
  ASSERT_TRUE(has_turn(turns, waiting));
  Writer newcomer = line.replay.writer({.timeout = 0ns});
  EXPECT_EQ(line.append(newcomer, 0), CommitStatus::TimedOut) << "although there is room";
  turns.leave(waiting);
  EXPECT_EQ(newcomer.commit(), CommitStatus::Committed);
}

TEST(Turns, ACallThatLeavesAsksTheGateForTheCallsBehindIt) {
  limiter::Turns turns;
  CountingGate gate;
  Asked a;
  Asked b;
  Asked c;
  Asked d;
  EXPECT_FALSE(turns.anybody());
  EXPECT_TRUE(has_turn(turns, a));
  for (Asked* const each : {&b, &c, &d}) {
    EXPECT_FALSE(has_turn(turns, *each));
  }
  EXPECT_FALSE(turns.ask(a, std::ref(gate)));
  gate.room = 3;
  EXPECT_TRUE(turns.ask(a, std::ref(gate)));
  EXPECT_FALSE(has_turn(turns, b)) << "a has not left";
  EXPECT_FALSE(turns.leave(a, std::ref(gate)));
  EXPECT_TRUE(has_turn(turns, b));
  EXPECT_TRUE(has_turn(turns, c));
  EXPECT_TRUE(turns.ask(b, std::ref(gate)));
  EXPECT_EQ(b.asked, 1) << "a asked for it";
  EXPECT_EQ(d.asked, 1);
  EXPECT_TRUE(turns.anybody());
  EXPECT_FALSE(turns.leave(b, std::ref(gate)));
  EXPECT_FALSE(turns.leave(c)) << "a asked the gate for it";
  Asked e;
  EXPECT_FALSE(has_turn(turns, e));
  EXPECT_TRUE(turns.leave(e, std::ref(gate))) << "behind d";
  EXPECT_EQ(d.asked, 1);
  EXPECT_TRUE(has_turn(turns, d));
  EXPECT_FALSE(turns.leave(d));
  EXPECT_FALSE(turns.leave(d)) << "a call that has left";
  EXPECT_FALSE(turns.anybody());
}

TEST(Turns, TheDemandIsThatOfTheFirstCallInLine) {
  limiter::Turns turns;
  CountingGate gate;
  Asked a;
  Asked b;
  a.demand = 7;
  b.demand = 9;
  EXPECT_TRUE(has_turn(turns, a));
  EXPECT_FALSE(has_turn(turns, b));
  EXPECT_FALSE(turns.ask(a, std::ref(gate)));
  EXPECT_EQ(turns.demand(), 7U);
  turns.leave(a);
  EXPECT_EQ(turns.demand(), 9U);
  turns.leave(b);
  EXPECT_EQ(turns.demand(), 0U);
}

}  // namespace
}  // namespace reprise::test
