#pragma once

#include <reprise/batch.hpp>
#include <reprise/item.hpp>
#include <reprise/rate_limiter.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

namespace reprise {

/// How importance weights (N * P(i))^-beta are scaled. A weight outside the range of float becomes
/// the nearest normal one: at least about 1e-38, and finite.
enum class Normalise : std::uint8_t {
  ByBatch,   ///< Divided by the largest in the batch: at most 1.
  ByBuffer,  ///< Divided by the largest that the buffer could give: at most 1, comparable
             ///< between batches.
  Not,       ///< The weights are not divided.
};

/// How the n items of a batch are drawn.
enum class Draws : std::uint8_t {
  Stratified,   ///< One uniform draw from each of n equal parts of the total weight.
  Independent,  ///< n independent draws; these and stratified ones are with replacement.
  /// n different items: each is drawn by weight among those that are left. All n are drawn at one
  /// moment: the call holds all shards' locks while it draws. Needs n items of weight above 0.
  ///
  /// The probability pi(i) that item i is among the n depends on all weights and has no closed
  /// form. In place of n * P(i), the batch reports the value of pi(i) given the threshold t at
  /// which this batch was cut off, 1 - exp(-weight(i) * t): sums over the batch divided by that
  /// value are unbiased for sums over the buffer, as with n * P(i) in other draws (Cohen and
  /// Kaplan, "Summarizing data using bottom-k sketches", 2007, rank conditioning for exponential
  /// ranks). Costs about 0.1 us more per item.
  WithoutReplacement,
  /// Passes over the buffer: each item once per pass, in an order that is shuffled anew for each. A
  /// pass is over the items that are in the buffer when the pass begins. Items that arrive during a
  /// pass wait for the next one; items that leave before their turn in the pass, or weigh 0 then,
  /// are left out. A batch may end one pass and begin the next, and may then have an item twice.
  ///
  /// All weights above 0 count alike: P(i) is 1 / (items of the pass), and every importance weight
  /// 1. Each sampler makes its own passes, and a sampler that resumes begins a new pass. After
  /// `ReplayBuffer::clear` make a new sampler, because the unfinished pass of an old one counts as
  /// a pass although nothing is left of it. Other draws of the sampler leave its pass as it is.
  /// Refused with `max_times_sampled`, and for ordered selectors.
  ///
  /// Cost: 8 bytes per item and sampler. Beginning a pass is O(steps), with a shard's lock held for
  /// at most 2^16 rows at a time, or a chunk. The call skips items that have left, or weigh 0,
  /// without a look at the timeout. The items of a batch lie anywhere in memory, so in large
  /// buffers a draw costs more than a stratified one, about as much as an independent one.
  Epoch,
};

/// Options of one `Sampler::sample`.
struct SampleOptions {
  float beta = 0.4F;                         ///< Exponent of the importance weights, 0 to 1.
  Normalise normalise = Normalise::ByBatch;  ///< How the importance weights are scaled.
  Draws draws = Draws::Stratified;           ///< How items are drawn.
  /// Steps in the returns of this batch, 1 to the window's n_step; none: the window's. An algorithm
  /// that shortens its returns while it learns (D'Oro et al., "Sample-Efficient Reinforcement
  /// Learning by Breaking the Replay Ratio Barrier", SR-SPR, 2023; Schwarzer et al., "Bigger,
  /// Better, Faster", BBF, 2023) makes the buffer with the largest n_step. Items and their
  /// probabilities stay the same; returns, discounts, the observation after an item of
  /// `Transitions` and its length are those of a window with this n_step. Refused where the window
  /// has no returns.
  std::optional<std::uint32_t> n_step = std::nullopt;
  /// Gamma per step in this batch, in [0, 1]; none: the window's. Refused as n_step is.
  std::optional<float> discount = std::nullopt;
  /// How long to wait for enough items and for the rate limiter; 0 tries once.
  std::chrono::nanoseconds timeout = kNoTimeout;
  /// Ends the wait soon after stop is requested, from any thread. After that a call does not wait,
  /// as with a timeout of 0.
  std::stop_token stop = {};  // NOLINT(readability-redundant-member-init): else g++ warns users.
  /// The hook, or null, is asked while the call waits. If it ends the wait, the call is `Stopped`.
  WaitHook* hook = nullptr;
  /// If false, only keys, weights and probabilities are filled; fields and what is computed from
  /// them stay as they were.
  bool gather = true;
};

/// Why there is or is not a batch.
struct SampleStatus {
  /// The outcome of a call.
  enum class Code : std::uint8_t {
    Ok,
    Closed,         ///< The buffer was closed.
    TimedOut,       ///< Not enough items, or the rate limiter held, for the whole timeout.
    Stopped,        ///< As `TimedOut`, but `SampleOptions::stop` or `hook` ended the wait.
    NothingToDraw,  ///< Too few items have a weight above 0: none, or fewer than the batch takes.
                    ///< With `Unlimited`, also too few items.
  };
  Code code = Code::Ok;  ///< The outcome of the call.
  /// Items that could be sampled at the end of the call. With sequences, if there were too few or
  /// the limiter held the call, the number that the limiter counts (see `MinSize`).
  std::size_t items = 0;
  /// Items that the rate limiter asks for; for a `Queue`, the items of the batch.
  std::size_t needed = 0;
  std::size_t batch = 0;  ///< Draws that the call asked for.
  /// How many of these draws were possible: fewer than `batch` if items were exhausted
  /// (`max_times_sampled`), or for `NothingToDraw`; otherwise equal to `batch`.
  std::size_t possible = 0;
  std::chrono::nanoseconds waited{0};  ///< Time that the call waited.
  /// Items of the batch that came from the queue of `SamplerOptions::fresh`: its first ones.
  std::size_t fresh = 0;
  /// Passes of `Draws::Epoch` that this sampler has completed, those that end with this batch
  /// included. A pass whose last items left before their turn is completed by the next batch.
  std::uint64_t passes = 0;
  /// The version of the policy (`ReplayBuffer::set_version`) as the batch was drawn. This minus the
  /// version of a step is the staleness of that step: for each item's first step at most
  /// `Options::max_staleness`. A `MixedSampler` reports the highest version of its parts, which
  /// gives no such bound.
  std::int64_t version = 0;
  /// Items that were not drawn because they are outdated (`Options::max_staleness`), if there is no
  /// batch.
  std::size_t outdated = 0;
  bool held_by_ratio = false;  ///< There are enough items, but samples are ahead of inserts.
  bool held_by_queue = false;  ///< Fewer items wait in the `Queue` than the batch has.
  bool held_by_turn = false;   ///< Other calls have waited longer, and are still waiting.
  /// There are too few items, and the buffer holds capacity_steps steps: each further one pushes
  /// another out. So a batch of more `Sequences` than a full buffer has never comes.
  bool full = false;
  RatioBalance balance = {};  ///< State of the ratio, if `held_by_ratio`.

  /// Describes the status in a sentence.
  [[nodiscard]] std::string message() const;
};

/// Refers to a batch, or to nothing; then `status` says why.
class SampleResult {
 public:
  /// Made by samplers and stages.
  SampleResult(const Batch* batch, const SampleStatus& status) noexcept
      : batch_(batch), status_(status) {}
  /// Whether there is a batch.
  [[nodiscard]] explicit operator bool() const noexcept { return batch_ != nullptr; }
  /// The batch; not to be called without one.
  [[nodiscard]] const Batch* operator->() const noexcept { return batch_; }
  /// The batch; not to be called without one.
  [[nodiscard]] const Batch& operator*() const noexcept { return *batch_; }
  /// Why there is or is not a batch.
  [[nodiscard]] const SampleStatus& status() const noexcept { return status_; }

 private:
  const Batch* batch_;
  SampleStatus status_;
};

/// Where batches come from: a `Sampler`, a `MixedSampler`, or a class of your own. Stages work over
/// any of them: `Prefetcher` draws ahead on a thread, `DeviceRing` copies to a device.
///
/// Thread safety: one thread at a time, but for `outlook`, which any thread may call.
class BatchSource {
 public:
  BatchSource() = default;
  virtual ~BatchSource() = default;

  /// Makes a batch for `sample_into`, with room for n items, at least 1. All its columns are in
  /// `memory`, or on the heap if that is null, as with `Batch::of` and `ReplayBuffer::make_batch`;
  /// the memory outlives the batch. Errors: `std::invalid_argument` for an n that the source can
  /// never give; `std::bad_alloc`.
  [[nodiscard]] virtual Batch make_batch(std::size_t n,
                                         std::pmr::memory_resource* memory = nullptr) const = 0;
  /// Draws as many items as the batch has room for. After another status than `Ok` the next call
  /// has to be given the same batch, unchanged, as a source may have begun to fill it. Errors: as
  /// `check`.
  virtual SampleStatus sample_into(Batch& batch, const SampleOptions& options = {}) = 0;
  /// Sets raw priorities of items that this source drew, as `SelectorHandle::update`.
  virtual UpdateResult update_priorities(std::span<const ItemKey> keys,
                                         std::span<const float> priorities) = 0;
  /// Throws what `sample_into` would throw for these arguments, as `std::invalid_argument`.
  virtual void check(const Batch& batch, const SampleOptions& options) const = 0;
  /// Says why a batch of n items does not come: sets `items`, `needed`, and as code `Closed` if no
  /// batch will come any more, or `TimedOut`. The call neither allocates nor waits.
  /// `std::logic_error` in a forked child.
  [[nodiscard]] virtual SampleStatus outlook(std::size_t n) const = 0;

 protected:
  BatchSource(const BatchSource&) = default;
  BatchSource& operator=(const BatchSource&) = default;
  BatchSource(BatchSource&&) = default;
  BatchSource& operator=(BatchSource&&) = default;
};

/// Draws batches ahead on a thread that the user gives it, so that the learner never waits for a
/// draw: `std::jthread thread([&](std::stop_token stop) { prefetcher.run(stop); });`
/// An exception that leaves such a thread ends the program: catch it if the source can throw, as a
/// sampler does once `ReplayBuffer::set_samples_per_insert` leaves no room for batches of n.
///
/// Staleness: a batch may have been drawn up to `depth` batches before it is used, so its
/// probabilities and weights may be old, and a few more of its keys stale.
///
/// Thread safety: `run` on one thread, `next` on one other. Both must have returned before the
/// prefetcher is destroyed. Finished batches pass through a lock-free queue.
class Prefetcher {
 public:
  /// Draws batches of n items, `depth` (1 to 1024) of them ahead, in `memory` (null: the heap). The
  /// source has to outlive the prefetcher and must not be moved. While `run` runs, only its thread
  /// uses the source: update priorities through the buffer, or another `MixedSampler` of the same
  /// buffers. Errors as for the source's `sample_into`. The timeout, the stop token and the hook in
  /// `sample` are not used: `run` draws until it is stopped.
  Prefetcher(BatchSource& source, std::size_t n, const SampleOptions& sample = {},
             std::size_t depth = 2, std::pmr::memory_resource* memory = nullptr);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Draws until stop is requested or the source is closed. Either ends a wait, a closed source
  /// within 50 ms. While there is nothing to draw, `run` waits. An exception of the source ends the
  /// call and is thrown; `next` then gives what was drawn before, and after that `Closed`.
  void run(std::stop_token stop);

  /// The next batch, valid until the next call. The result is false if no batch comes within the
  /// timeout or before the hook ends the wait, or if the source is closed or `run` has ended and
  /// every drawn batch has been given out. `hook` is asked while the call waits; it may be null.
  SampleResult next(std::chrono::nanoseconds timeout = kNoTimeout, WaitHook* hook = nullptr);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
