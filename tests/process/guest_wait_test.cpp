#include "process/hosted.hpp"
#include "testing/test.hpp"

// Tests of guests whose calls wait, because no thread serves their host.

namespace reprise::test {
namespace {

/// Lets calls begin to wait, and ends their waits if `refuses` is set.
struct RefusingHook final : WaitHook {
  bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    return waited == 0ns || !refuses;
  }
  std::atomic<bool> refuses = false;
};

/// The code of the `std::system_error` that a call throws when its wait ends; 0 if it throws none,
/// or throws `std::runtime_error`, because the host is gone.
template <class Call>
std::error_code wait_error_of(const Call& call) {
  try {
    call();
  } catch (const std::system_error& error) {
    return error.code();
  } catch (const std::runtime_error&) {  // The host is gone.
  }
  return {};
}

/// A guest that has attached and drawn, and whose host no thread serves any more.
struct UnservedGuest : SharedNumberedBuffer {
  explicit UnservedGuest(const AttachOptions& options)
      : SharedNumberedBuffer(SmallOptions{}, {}, options) {
    append_many(0, 40);
    const auto batch = require_batch(sampler.sample(8));
    keys.assign(batch->keys().begin(), batch->keys().end());
    hosted.thread = {};
  }

  /// Expects the wait of each kind of call to be ended.
  void expect_waits_end() {
    const std::vector<std::function<void()>> calls = {
        [&] { (void)guest.stats(); },
        [&] { (void)guest.writer(); },
        [&] { (void)guest.vector_writer(2); },
        [&] { (void)guest.sampler(); },
    };
    for (const auto& call : calls) {
      EXPECT_EQ(wait_error_of(call), std::errc::operation_canceled);
    }
    for (const UpdateResult& result :
         {guest.update_priorities(keys, priorities), sampler.update_priorities(keys, priorities)}) {
      EXPECT_EQ(result.applied, 0U);
      EXPECT_EQ(result.stale, 0U) << "the host may still apply the updates";
    }
  }

  GuestSampler sampler = guest.sampler();
  std::vector<ItemKey> keys;
  std::vector<float> priorities = std::vector<float>(8, 1.0F);
};

TEST(GuestWait, IsEndedByAHookAndTheGuestCanGoOn) {
  RefusingHook hook;
  UnservedGuest unserved({.hook = &hook});
  hook.refuses = true;
  unserved.expect_waits_end();
  EXPECT_EQ(wait_error_of(
                [&] { (void)attach(unserved.hosted.address(), {.timeout = 60s, .hook = &hook}); }),
            std::errc::operation_canceled);
  EXPECT_EQ(
      wait_error_of([&] { (void)attach("@reprise-nobody", {.timeout = 60s, .hook = &hook}); }),
      std::errc::operation_canceled);
  hook.refuses = false;
  unserved.hosted.serve();
  // The host first answers the requests of the ended calls, and the guest drops these answers.
  EXPECT_EQ(unserved.guest.stats().guests, 1U);
  EXPECT_EQ(unserved.guest.update_priorities(unserved.keys, unserved.priorities).applied, 8U);
  EXPECT_EQ(unserved.sampler.update_priorities(unserved.keys, unserved.priorities).applied, 8U);
  EXPECT_TRUE(unserved.sampler.sample(8));
}

TEST(GuestWait, IsEndedByItsStopToken) {
  std::stop_source stop;
  UnservedGuest unserved({.stop = stop.get_token()});
  std::jthread later([&] {
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  unserved.expect_waits_end();
}

TEST(GuestWait, OfAnAttachForAnAnswerTimesOut) {
  UnservedGuest unserved({});
  EXPECT_EQ(wait_error_of([&] { (void)attach(unserved.hosted.address(), {.timeout = 20ms}); }),
            std::errc::timed_out);
}

/// The close also ends the wait of a process that has connected and was not accepted yet.
TEST(GuestWait, EndsWhenTheHostsBufferIsClosed) {
  SharedNumberedBuffer line;
  line.hosted.thread = {};
  std::atomic<bool> timed_out = false;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        const std::error_code code = wait_error_of([&] {
          i == 0 ? (void)line.guest.writer()
                 : (void)attach(line.hosted.address(), {.timeout = 30s});
        });
        timed_out = timed_out || code == std::errc::timed_out;
      });
    }
    std::this_thread::sleep_for(20ms);
    line.replay.close();
    line.hosted.serve();
  }
  EXPECT_FALSE(timed_out);
  EXPECT_EQ(wait_error_of([&] { (void)attach(line.hosted.address(), {.timeout = 0s}); }),
            std::errc::connection_refused);
  EXPECT_THROW((void)line.guest.writer(), std::runtime_error);
}

/// The message of the update is larger than a socket's buffer, so its sender waits in the middle.
TEST(GuestWait, MayEndInTheMiddleOfAMessageWhichClosesTheGuest) {
  RefusingHook hook;
  UnservedGuest unserved({.hook = &hook});
  hook.refuses = true;
  const std::vector<ItemKey> many(1'000'000, unserved.keys.front());
  const std::vector<float> priorities(many.size(), 1.0F);
  (void)unserved.guest.update_priorities(many, priorities);
  EXPECT_TRUE(unserved.guest.closed()) << "the host could not read the next message";
}

TEST(GuestWait, IsEndedByACloseInAnotherThread) {
  UnservedGuest unserved({});
  std::atomic<int> closed = 0;
  {
    std::vector<std::jthread> threads;
    // One of the threads waits for the host, and the others wait for the call of that thread.
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        try {
          (void)unserved.guest.stats();
        } catch (const std::runtime_error&) {
          closed += unserved.guest.closed() ? 1 : 0;
        }
      });
    }
    std::this_thread::sleep_for(20ms);
    unserved.guest.close();
  }
  EXPECT_EQ(closed, 3);
}

TEST(GuestWait, OfSeveralThreadsIsEndedByOneStopRequest) {
  std::stop_source stop;
  UnservedGuest unserved({.stop = stop.get_token()});
  std::vector<std::jthread> threads;
  std::atomic<int> canceled = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      canceled +=
          wait_error_of([&] { (void)unserved.guest.stats(); }) == std::errc::operation_canceled;
    });
  }
  std::this_thread::sleep_for(20ms);
  stop.request_stop();
  threads.clear();
  EXPECT_EQ(canceled, 3);
}

/// A hook that makes a call from within a wait, once, as a signal handler of Python may.
struct ReentrantHook final : WaitHook {
  explicit ReentrantHook(bool continues = false) : continues_wait(continues) {}
  bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    if (waited != 0ns) {
      asked_later = asked_later || !call;
      if (const auto inner_call = std::exchange(call, nullptr)) {
        inner_call();
        return continues_wait;
      }
    }
    return waited == 0ns;
  }
  std::function<void()> call;
  const bool continues_wait;  ///< Whether the wait goes on after `call`.
  bool asked_later = false;   ///< Whether a wait asked the hook after `call`.
};

TEST(GuestWait, IsEndedAlsoForCallsThatItsHookMakes) {
  ReentrantHook hook;
  UnservedGuest unserved({.hook = &hook});
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { (void)unserved.guest.writer(); }, [&] { (void)unserved.guest.sampler(); }}) {
    std::error_code inner;
    hook.call = [&] { inner = wait_error_of(call); };
    EXPECT_EQ(wait_error_of([&] { (void)unserved.guest.stats(); }), std::errc::operation_canceled);
    EXPECT_EQ(inner, std::errc::operation_canceled);
  }
}

TEST(GuestWait, IsEndedByAHookThatClosesTheGuest) {
  for (const auto& call : std::vector<std::function<void(Guest&)>>{
           [](Guest& guest) { (void)guest.stats(); }, [](Guest& guest) { (void)guest.writer(); },
           [](Guest& guest) { (void)guest.sampler(); }}) {
    ReentrantHook hook(/*continues=*/true);
    SharedNumberedBuffer line(SmallOptions{}, {}, {.hook = &hook});
    line.hosted.thread = {};
    hook.call = [&] { line.guest.close(); };
    EXPECT_THROW(call(line.guest), std::runtime_error);
    EXPECT_FALSE(hook.asked_later);
    line.hosted.serve();
    yield_while([&] { return line.replay.stats().guests != 0; });
  }
}

}  // namespace
}  // namespace reprise::test
