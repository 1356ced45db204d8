#pragma once

#include <reprise/batch.hpp>
#include <reprise/rate_limiter.hpp>
#include <reprise/wait_hook.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

namespace reprise {

namespace sampler {
class SamplerCore;
}
namespace detail {
struct SamplerDeleter {
  void operator()(sampler::SamplerCore* sampler) const noexcept;
};
}  // namespace detail

/// Options of a sampler.
struct SamplerOptions {
  /// Start of the sampler's own random generator. Sequenced calls on equal buffers with equal
  /// seeds give equal batches, bit for bit.
  std::uint64_t seed = 0;
  /// Place in `Options::selectors`.
  std::size_t selector = 0;
  /// Share of each batch, 0 to 1, that is items which nobody has drawn before, as many as there
  /// are: an online queue in front of the selector, which draws the rest. n * fresh is rounded to
  /// the nearest number, and is at least 1. They have the first places of the batch, oldest first:
  /// so each item is learned from once, soon after it arrived, if fresh * samples >= inserts. Each
  /// shard has its own queue, in which the items of a chunk stay together; the longer queue gives
  /// more.
  ///
  /// Fresh are items that arrived since the first sampler with such a share was made, until any
  /// sampler draws them by any selector; what a checkpoint loads is not. An item that leaves before
  /// its turn, or weighs 0 when it comes, loses it, and the selector may draw in its place. The
  /// selector's part may give an item its first draw, too: any fresh one that was left, and with a
  /// share of 1 the few that arrive between the two parts of a draw. As the
  /// queue gives each item once, the P(i) that it reports is 1 / N, whatever the item weighs, and
  /// the importance weight before it is scaled 1. Such a sampler refuses `WithoutReplacement` and
  /// `Epoch`; it is refused for selectors that draw in an order, and with `max_times_sampled`.
  ///
  /// Cost: 1 byte per row of the buffer, and each shard's lock once more per batch.
  float fresh = 0.0F;
  /// The memory of the batch, for example pinned memory; must outlive the sampler. Null: the heap.
  std::pmr::memory_resource* memory = nullptr;
  /// Continues the random numbers of a saved sampler, named by its place in `SaveOptions::samplers`
  /// of the checkpoint that the buffer was loaded from. `seed` is not used.
  std::optional<std::size_t> resume = std::nullopt;
  /// The batch holds each frame of an item once, see `Batch::frames`: with `Transitions` F + n_step
  /// instead of 2 F of them, which saves copying where n_step < frame_stack; with `Sequences` F + T
  /// instead of 2 T F, which always does.
  bool unique_frames = false;
  /// A gather of at least this many bytes is split over oneTBB's threads.
  std::size_t parallel_gather_bytes = std::size_t{4} << 20U;
};

/// How importance weights (N * P(i))^-beta are scaled. A weight that no float holds becomes the
/// nearest normal one: at least about 1e-38, and finite.
enum class Normalise : std::uint8_t {
  ByBatch,   ///< Divided by the largest in the batch: at most 1.
  ByBuffer,  ///< Divided by the largest that the buffer could give: at most 1, comparable
             ///< between batches.
  Not,       ///< As they are.
};

/// How the n items of a batch are drawn.
enum class Draws : std::uint8_t {
  Stratified,   ///< One uniform draw from each of n equal parts of the total weight.
  Independent,  ///< n independent draws. Both are with replacement.
  /// n different items: each next one is drawn by weight among the rest. All of them are drawn at
  /// one moment: the call holds all shards' locks while it draws. Needs n items of weight above 0.
  ///
  /// An item's probability pi(i) to be among them depends on all weights and has no closed form.
  /// Its value given the threshold t at which this batch was cut off, 1 - exp(-weight(i) * t),
  /// takes the place of n * P(i): sums over the batch divided by it are unbiased for sums over the
  /// buffer, as with P(i) in other draws (Cohen and Kaplan, "Summarizing data using bottom-k
  /// sketches", 2007, rank conditioning for exponential ranks). Costs about 0.1 us more per item.
  WithoutReplacement,
  /// Passes over the buffer: each item once per pass, in a sequence that is shuffled anew for each.
  /// A pass is over the items that are there when it begins. Those that arrive during it wait for
  /// the next one; those that leave before their turn, or weigh 0 when it comes, are left out. A
  /// batch may end one pass and begin the next, and then it may have an item twice.
  ///
  /// Weights above 0 do not count: P(i) is 1 / (items of the pass), and every importance weight 1.
  /// Passes belong to a sampler: two samplers make one each, and one that resumes begins a new one.
  /// After `clear` begin with a new sampler: what an old one had begun counts as a pass when it
  /// finds nothing left.
  /// Other draws of the sampler leave its pass as it is. Refused with `max_times_sampled`, and for
  /// selectors that draw in an order.
  ///
  /// Cost: 8 bytes per item and sampler. To begin a pass is O(steps), with a shard's lock held for
  /// at most 2^16 rows at a time, or a chunk. Items that have left, or weigh 0, are passed over
  /// without a look at the timeout. The items of a batch lie anywhere in memory, so in
  /// large buffers a draw costs more than a stratified one, about as much as an independent one.
  Epoch,
};

/// Options of one `Sampler::sample`.
struct SampleOptions {
  float beta = 0.4F;                         ///< Exponent of the importance weights, 0 to 1.
  Normalise normalise = Normalise::ByBatch;  ///< How the importance weights are scaled.
  Draws draws = Draws::Stratified;           ///< How items are drawn.
  /// How long to wait for enough items and for the rate limiter; 0 tries once.
  std::chrono::nanoseconds timeout = kNoTimeout;
  /// Ends the wait soon after stop is requested, from any thread. After that a call does not wait,
  /// as with a timeout of 0.
  std::stop_token stop = {};  // NOLINT(readability-redundant-member-init): else g++ warns users.
  /// Asked while the call waits; if it ends the wait, the call is `Stopped`. Null: nobody is asked.
  WaitHook* hook = nullptr;
  /// False: only keys, weights and probabilities are filled; fields and what is computed from them
  /// stay as they were.
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
  /// Items that could be sampled at the end of the call. If there were too few, or the limiter held
  /// the call, and the window is `Sequences`: the count that the limiter uses, see `MinSize`.
  std::size_t items = 0;
  /// Items that the rate limiter asks for; for a `Queue`, those of the batch.
  std::size_t needed = 0;
  std::size_t batch = 0;  ///< Draws that the call asked for.
  /// Draws that were possible, if they were too few: with `max_times_sampled` because items were
  /// exhausted, and for `NothingToDraw`. Else equal to `batch`.
  std::size_t draws = 0;
  std::chrono::nanoseconds waited{0};  ///< Time that the call waited.
  /// Items of the batch that came from the queue of `SamplerOptions::fresh`: its first ones.
  std::size_t fresh = 0;
  /// Passes of `Draws::Epoch` that this sampler has completed, those that end with this batch
  /// included. A pass whose last items left before their turn is completed by the next batch.
  std::uint64_t passes = 0;
  bool held_by_ratio = false;  ///< There are enough items, but samples are ahead of inserts.
  bool held_by_queue = false;  ///< Fewer items wait in the `Queue` than the batch has.
  bool held_by_turn = false;   ///< Other calls have waited longer, and are still waiting.
  RatioBalance balance = {};   ///< State of the ratio, if `held_by_ratio`.

  /// Describes the status in a sentence.
  [[nodiscard]] std::string message() const;
};

/// Refers to the sampler's batch, or to nothing; then `status` says why.
class SampleResult {
 public:
  /// Made by `Sampler`.
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

/// Draws batches for one learner thread.
///
/// Thread safety: one thread at a time; any number of samplers at once.
/// Progress: takes each shard's lock for a short time: once to draw, once more if writers have news
/// for it, and once more to give pins back if it is free. No lock is held while rows are copied.
/// Lifetime: may outlive its buffer, which then reads as closed.
class Sampler {
 public:
  /// Draws n items into the sampler's own batch, whose contents change with the
  /// next call. False if closed, timed out, stopped or without any weight.
  ///
  /// Sequence of a batch: `Fifo`, `Lifo`, `MinHeap` and `MaxHeap` give the first n items, each
  /// once, the first one first. Items drawn by weight are sorted by memory: shard by shard, and
  /// within a shard by place, with `RankBased` mostly from high ranks to low. That is neither
  /// random nor by time: shuffle such a batch before you cut it into parts. Those of a pass are
  /// sorted by shard alone.
  ///
  /// Errors: `std::invalid_argument` for n = 0, beta outside [0, 1], a negative timeout, a batch
  /// that the rate limiter could never let through, or one that takes more different items than
  /// `Options::capacity_steps` (n without replacement or in an order, n / max_times_sampled with
  /// a limit per item); `std::bad_alloc` for more than memory holds.
  /// Cost: O(n log(items)) with one cache miss per level and item, plus the rows copied; memory is
  /// allocated only when n grows.
  SampleResult sample(std::size_t n, const SampleOptions& options = {});

  /// Draws into places [offset, offset + n) of a batch made by `ReplayBuffer::make_batch`, with or
  /// without unique frames, to keep
  /// two in flight or to mix buffers of one schema and window. `ByBatch` normalises over these n.
  /// The batch's size becomes at least offset + n.
  SampleStatus sample_into(Batch& batch, std::size_t offset, std::size_t n,
                           const SampleOptions& options = {});

 private:
  friend class Prefetcher;
  friend class ReplayBuffer;
  explicit Sampler(std::unique_ptr<sampler::SamplerCore, detail::SamplerDeleter> core) noexcept
      : core_(std::move(core)) {}

  std::unique_ptr<sampler::SamplerCore, detail::SamplerDeleter> core_;
};

}  // namespace reprise
