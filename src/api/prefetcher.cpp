#include <reprise/batch_source.hpp>

#include "base/event.hpp"
#include "base/text.hpp"
#include "limiter/wait.hpp"
#include "sampler/sampler_core.hpp"

#include <boost/lockfree/spsc_queue.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace reprise {
namespace {

using Code = SampleStatus::Code;

/// The pause before another try while every weight is 0, or a user's source gives no batch.
constexpr std::chrono::nanoseconds kRetryPause = std::chrono::milliseconds(1);

/// How long a waiting thread sleeps at most before it looks again whether the source is closed.
constexpr std::chrono::nanoseconds kPollInterval = std::chrono::milliseconds(20);

constexpr std::size_t kMaxDepth = 1024;

std::size_t checked(std::size_t depth) {
  base::require(depth >= 1 && depth <= kMaxDepth, base::Call{"Prefetcher"}, "depth is ", depth,
                "; allowed: 1 to ", kMaxDepth);
  return depth;
}

}  // namespace

/// Batches circulate: free, filled by `run`, ready, handed out by `next`, and free again. Each
/// queue has one producer and one consumer, the threads that call `run` and `next`.
class Prefetcher::State {
 public:
  State(BatchSource& source, std::size_t n, const SampleOptions& sample, std::size_t depth,
        std::pmr::memory_resource* memory)
      : source_(source),
        n_(n),
        options_(sample),
        statuses_(checked(depth) + 1),
        free_(depth + 1),
        ready_(depth + 1) {
    batches_.reserve(depth + 1);
    for (std::size_t i = 0; i <= depth; ++i) {
      batches_.push_back(source.make_batch(n, memory));
      free_.push(i);
    }
    source.check(batches_.front(), sample);
    options_.timeout = kNoTimeout;
    options_.hook = nullptr;
  }

  void run(const std::stop_token& stop) {
    static_cast<void>(source_.outlook(n_));  // This throws in a forked child.
    // P1: release; partner: the acquire in next.
    phase_.store(Phase::Running, std::memory_order_release);
    // Marks the end of `run` on every path, also after an exception.
    struct MarkEnded {
      explicit MarkEnded(State& of) noexcept : state(of) {}
      MarkEnded(const MarkEnded&) = delete;
      MarkEnded& operator=(const MarkEnded&) = delete;
      State& state;
      ~MarkEnded() {
        // P1: release; partner: the acquire in next. A thread that sees the end sees every batch
        // that was pushed.
        state.phase_.store(Phase::Ended, std::memory_order_release);
        state.ready_event_.wake_all();
      }
    } const mark_ended(*this);
    StopWhenClosed stop_when_closed(*this);
    SampleOptions options = options_;
    options.stop = stop;
    options.hook = &stop_when_closed;
    while (!stop.stop_requested() && !closed()) {
      if (filling_ == kNone && !free_.pop(filling_)) {
        wait_for_free(stop);
        continue;
      }
      const SampleStatus status = source_.sample_into(batches_[filling_], options);
      if (status.code == Code::Ok) {
        statuses_[filling_] = status;
        ready_.push(filling_);
        filling_ = kNone;
        ready_event_.wake_registered_after_release();
      } else if (status.code == Code::Closed) {
        return;
      } else {
        std::this_thread::sleep_for(kRetryPause);
      }
    }
  }

  SampleResult next(std::chrono::nanoseconds timeout, WaitHook* hook) {
    static_cast<void>(source_.outlook(n_));  // This throws in a forked child.
    base::require(timeout.count() >= 0, base::Call{"Prefetcher::next"}, "timeout is ",
                  timeout.count(), " ns; allowed: at least 0");
    if (handed_out_ != kNone) {
      free_.push(handed_out_);
      handed_out_ = kNone;
      free_event_.wake_registered_after_release();
    }
    if (pop_ready()) {
      return hand_out(std::chrono::nanoseconds(0));
    }
    // A closed source ends `run`, and the end of `run` ends this wait, so all drawn batches come
    // first.
    const std::stop_token never;
    limiter::WaitTerms terms(/*life=*/nullptr, timeout, never, hook);
    limiter::Wait wait(terms, /*meter=*/nullptr, /*event=*/nullptr);
    std::optional<limiter::WaitEnd> end;
    if (wait.refused()) {
      end = limiter::WaitEnd::Stopped;
    }
    // I11: register, look again, only then sleep.
    const base::Event::Registration registration(ready_event_);
    while (!end) {
      const std::uint32_t ticket = registration.ticket();
      // The end is read before the queue, so that batches pushed before the end are found.
      const Phase phase = phase_.load(std::memory_order_acquire);  // P1
      const bool over = phase == Phase::Ended || (phase == Phase::NotStarted && closed());
      if (pop_ready()) {
        return hand_out(wait.waited());
      }
      end = over ? limiter::WaitEnd::Closed : wait.over();
      if (!end) {
        wait.sleep(registration, ticket, phase == Phase::NotStarted ? kPollInterval : kNoTimeout);
      }
    }
    SampleStatus status = source_.outlook(n_);
    status.waited = wait.waited();
    status.code = sampler::code_of(*end);
    return {nullptr, status};
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  enum class Phase : std::uint8_t { NotStarted, Running, Ended };

  /// Ends waits of `run` once the source is closed: one buffer of a `MixedSampler` may be closed
  /// while the draw waits for another buffer.
  class StopWhenClosed final : public WaitHook {
   public:
    explicit StopWhenClosed(const State& state) noexcept : state_(state) {}
    bool keep_waiting(std::chrono::nanoseconds /*waited*/) noexcept override {
      return !state_.closed();
    }

   private:
    const State& state_;
  };

  bool pop_ready() { return ready_.pop(handed_out_); }
  [[nodiscard]] bool closed() const { return source_.outlook(n_).code == Code::Closed; }
  [[nodiscard]] SampleResult hand_out(std::chrono::nanoseconds waited) const {
    SampleStatus status = statuses_[handed_out_];
    status.waited = waited;
    return {&batches_[handed_out_], status};
  }

  /// Waits for a free batch. It may return early, because `run` looks again.
  void wait_for_free(const std::stop_token& stop) {
    limiter::WaitTerms terms(/*life=*/nullptr, kNoTimeout, stop, /*hook=*/nullptr);
    limiter::Wait wait(terms, /*meter=*/nullptr, &free_event_);
    // I11: register, look again, only then sleep.
    const base::Event::Registration registration(free_event_);
    const std::uint32_t ticket = registration.ticket();
    if (free_.read_available() == 0 && !wait.over()) {
      wait.sleep(registration, ticket, kPollInterval);
    }
  }

  BatchSource& source_;
  const std::size_t n_;
  SampleOptions options_;  ///< The options of `run`, without the stop token.
  std::vector<Batch> batches_;
  std::vector<SampleStatus> statuses_;  ///< The status of each batch.
  /// The batch that `run` fills, and keeps for the next `run` if it ends without a draw.
  std::size_t filling_ = kNone;
  std::size_t handed_out_ = kNone;  ///< The batch that `next` gave last.
  boost::lockfree::spsc_queue<std::size_t> free_;
  boost::lockfree::spsc_queue<std::size_t> ready_;
  base::Event free_event_;
  base::Event ready_event_;
  std::atomic<Phase> phase_{Phase::NotStarted};
};

Prefetcher::Prefetcher(BatchSource& source, std::size_t n, const SampleOptions& sample,
                       std::size_t depth, std::pmr::memory_resource* memory)
    : state_(std::make_unique<State>(source, n, sample, depth, memory)) {}

Prefetcher::~Prefetcher() = default;

// The stop token is passed by value, as std::jthread passes it.
void Prefetcher::run(std::stop_token stop) {  // NOLINT(performance-unnecessary-value-param)
  state_->run(stop);
}

SampleResult Prefetcher::next(std::chrono::nanoseconds timeout, WaitHook* hook) {
  return state_->next(timeout, hook);
}

}  // namespace reprise
