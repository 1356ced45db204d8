#pragma once

#include <reprise/batch_source.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <stop_token>

namespace reprise {

/// Draws batches ahead on a thread that the user gives it, so that the learner never waits for a
/// draw: `std::jthread thread([&](std::stop_token stop) { prefetcher.run(stop); });`
///
/// Staleness: a batch may have been drawn up to `depth` batches before it is used, so its
/// probabilities and weights are those of that moment, and a few more of its keys may be stale.
///
/// Thread safety: `run` on one thread, `next` on one other. Both must have returned before the
/// prefetcher is destroyed. Finished batches pass through a lock-free queue.
class Prefetcher {
 public:
  /// Batches of n items, `depth` (1 to 1024) of them ahead, in `memory` (null: the heap). The
  /// source outlives the prefetcher where it is, and while `run` runs, only its thread uses it:
  /// update priorities through the buffer, or another `MixedSampler` of the same buffers. Errors as
  /// for the source's `sample_into`. The timeout, the stop token and the hook in `sample` are not
  /// used: `run` draws until it is stopped.
  Prefetcher(BatchSource& source, std::size_t n, const SampleOptions& sample = {},
             std::size_t depth = 2, std::pmr::memory_resource* memory = nullptr);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Draws until stop is requested or the source is closed, which end its waits, the latter within
  /// 50 ms. If there is nothing to draw, it waits until there is. What the source throws ends it,
  /// and is thrown; `next` then gives what was drawn before, and after that `Closed`.
  void run(std::stop_token stop);

  /// The next batch, valid until the next call. False if none comes within the timeout or before
  /// the hook ends the wait, or if the source is closed or `run` has ended and every drawn batch
  /// has been given out. `hook` is asked while the call waits; it may be null.
  SampleResult next(std::chrono::nanoseconds timeout = kNoTimeout, WaitHook* hook = nullptr);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
