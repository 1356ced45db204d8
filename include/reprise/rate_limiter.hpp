#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

namespace reprise {

/// The longest timeout: wait until there is an answer or the buffer is closed.
inline constexpr std::chrono::nanoseconds kNoTimeout = std::chrono::nanoseconds::max();

/// Decides whether a call waits, and about every 50 ms whether it goes on waiting. Interpreters
/// need a hook to run signal handlers in the middle of a call, which counts as one wait all the
/// same.
///
/// The hook is called on the thread of the waiting call, without a lock: it may use the buffer,
/// through any object except the one that waits. With a ratio, a queue or a limit of draws the
/// waiting call keeps its place in line meanwhile. So a `sample` that the hook of a `sample` calls,
/// or a `commit` that the hook of a `commit` calls, stands in line behind it, and without a timeout
/// both wait for ever. The hook must not throw. Its own time counts as waited.
class WaitHook {
 public:
  WaitHook() = default;
  WaitHook(const WaitHook&) = delete;
  WaitHook& operator=(const WaitHook&) = delete;
  virtual ~WaitHook() = default;

  /// Returns whether to go on waiting; false ends the call as a stop request does. `waited` is 0 in
  /// the first question, before the wait begins: a call that ends then has tried once, and `Stats`
  /// does not count a wait.
  [[nodiscard]] virtual bool keep_waiting(std::chrono::nanoseconds waited) noexcept = 0;
};

/// Counts and durations of one kind of wait since the buffer was made.
struct WaitStats {
  std::uint64_t waits = 0;      ///< Calls that had to wait at least once.
  std::uint64_t timeouts = 0;   ///< Waits that a timeout ended.
  std::uint64_t stops = 0;      ///< Waits that a stop token or a hook ended.
  std::size_t waiting_now = 0;  ///< Calls waiting at this moment.
  /// How long at least one thread has been waiting without a break; 0 if no thread waits.
  std::chrono::nanoseconds waiting_for{0};
  std::chrono::nanoseconds total{0};    ///< Sum of the waits that have ended.
  std::chrono::nanoseconds longest{0};  ///< Longest wait that has ended.
};

/// Nobody waits; samplers do not even wait for a first item: `sample` on an empty buffer answers
/// `NothingToDraw` at once.
struct Unlimited {
  friend bool operator==(const Unlimited&, const Unlimited&) = default;
};

/// Samplers wait until at least this many items can be sampled. Writers never wait.
///
/// With sequences, the limiter counts steps instead of items: samplers wait until the buffer holds
/// `items` steps and an item begins with one of them. With a limit of draws
/// (`Options::max_times_sampled`) or of staleness (`Options::max_staleness`), the limiter counts
/// the sequences that can still be drawn, because a number of steps does not tell how many
/// sequences there are.
struct MinSize {
  std::size_t items = 1;  ///< 1 to capacity_steps.

  friend bool operator==(const MinSize&, const MinSize&) = default;
};

/// Holds the number of sampled items per inserted step near a ratio. Samplers wait when samples are
/// ahead of the ratio, and writers wait in `commit` when inserts are ahead.
///
/// Let S be the items sampled and I the steps inserted so far. The balance is
/// S - samples_per_insert * (I - min_size).
///  - Samplers wait while their batch would lift the balance above error_buffer.
///  - Writers wait while their step would push the balance below -error_buffer.
///  - Before min_size steps were inserted, the ratio holds nobody; samplers wait until min_size
///    items can be sampled, as with `MinSize`.
///  - A writer is let through, whatever the balance is, while fewer than min_size items can be
///    sampled, because no sampler could go on then. A writer is also let through while a waiting
///    draw needs more different items than there are (a draw in order, without replacement, or of
///    items with a limit of draws). The steps let through still count, so the writer waits the
///    longer afterwards.
///  - Steps whose items are outdated (`Options::max_staleness`) count as inserted, so the ratio
///    does not make samplers wait for fresh items; `MinSize` and `Queue` do.
///  - Writers book (reserve) inserts in blocks of clamp(error_buffer / (2 * max_writers *
///    samples_per_insert), 1, 64) steps. Booked inserts count as made, in `Stats::limiter` too,
///    until their writer is closed. So for each open writer, whose actor may pause, samplers may
///    exceed the bound by what is left of one block, and other writers wait earlier by as much.
///
/// With sequences, min_size counts as `MinSize::items` does. `ReplayBuffer::set_samples_per_insert`
/// changes the ratio while writers and samplers run.
///
/// A thread that both commits and samples would wait for itself, or for another sampler that waits
/// for this thread's steps: give its writer and its calls of `sample` timeouts.
struct SampleToInsertRatio {
  /// Above 0, finite. A ratio above `Options::max_times_sampled`, if that is set, is refused: no
  /// step is sampled more often, and writers would wait for samples that never come.
  double samples_per_insert = 1.0;
  std::size_t min_size = 1;  ///< Items, 1 to capacity_steps.
  /// How far the balance may stray, in sampled items: at least max(1, samples_per_insert), and at
  /// most 1e15, so that the balance is a finite number. Besides, batch + samples_per_insert * block
  /// <= 2 * error_buffer has to hold for every batch and every block of booked inserts, or samplers
  /// and writers could wait for each other for ever. The default is four batches of 256.
  double error_buffer = 1024.0;

  friend bool operator==(const SampleToInsertRatio&, const SampleToInsertRatio&) = default;
};

/// A bounded queue between writers and samplers. Samplers wait until as many items wait to be
/// sampled as their batch has. Writers wait in `commit` while `size` or more items wait to be
/// sampled.
///
/// An item waits to be sampled as long as it can be sampled, so a queue needs
/// `Options::max_times_sampled`. With one draw per item and a selector in order, this is a
/// first-in, first-out queue. Without a limit of draws, items would stay for good and hold writers
/// for ever, so such a buffer is refused. While a batch is being drawn, its items do not count for
/// other samplers. Items may be sequences instead of steps.
///
/// Overshoot: writers book inserts in blocks of clamp(size / (2 * max_writers), 1, 64), and a step
/// becomes an item only when its window is complete. So at most `size` items wait, plus, for each
/// writer, one block and the steps whose windows are not complete. Steps beyond capacity_steps are
/// evicted even if they were never sampled. With the `Fifo` selector, a capacity of that sum loses
/// nothing. In another order, such as that of `Lifo`, the capacity has to be that sum times
/// chunk_steps for each shard: steps leave a chunk from its front, so the steps behind an item that
/// waits to be sampled stay in the chunk. The steps of removed items stay likewise, so a `Queue`
/// whose items are removed needs that capacity with `Fifo` too. With sequences the sum counts items
/// and the capacity counts steps: an item takes `period` steps, and more where episodes are short
/// or no item begins near their ends. With a smaller capacity, steps are evicted before `size`
/// items wait, and writers never wait.
///
/// No deadlock: writers are held only while `size` items wait, and a batch of more than `size` is
/// refused (`std::invalid_argument`). A thread that both commits and samples needs timeouts, as
/// with `SampleToInsertRatio`.
struct Queue {
  std::size_t size = 1;  ///< Items, 1 to capacity_steps.

  friend bool operator==(const Queue&, const Queue&) = default;
};

/// Decides when writers and samplers wait for each other.
using RateLimiter = std::variant<MinSize, SampleToInsertRatio, Queue, Unlimited>;

template <class Family>
class StrategyKind;
/// The kinds of rate limiter, with their options. The place of a kind in the list is its number in
/// checkpoints.
[[nodiscard]] std::span<const StrategyKind<RateLimiter>> rate_limiters() noexcept;

/// The state of a `SampleToInsertRatio`.
struct RatioBalance {
  double ahead = 0.0;               ///< How many items samples are ahead; below 0 if inserts are.
  double samples_per_insert = 0.0;  ///< The present ratio.
  double error_buffer = 0.0;        ///< The bound of the balance, in both directions.
};

}  // namespace reprise
