#pragma once

#include <reprise/batch_source.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <utility>

namespace reprise {

namespace sampler {
class SamplerCore;
}
namespace detail {
struct Access;
struct SamplerDeleter {
  void operator()(sampler::SamplerCore* sampler) const noexcept;
};
}  // namespace detail

/// Options of a sampler.
struct SamplerOptions {
  /// Start of the sampler's own random generator. Sequenced calls on equal buffers with equal
  /// seeds give equal batches, bit for bit.
  std::uint64_t seed = 0;
  /// Share of each batch, 0 to 1, that is taken from a queue of fresh items, which nobody has drawn
  /// before; the selector draws the rest, and what the queue lacks. n * fresh is rounded to the
  /// nearest number, and is at least 1. Fresh items have the first places of the batch, oldest
  /// first. So each item is learned from once, soon after it arrived, if fresh * samples >=
  /// inserts. Each shard has its own queue, in which the items of a chunk stay together; the longer
  /// queue gives more.
  ///
  /// An item is fresh if it arrived since the first sampler with such a share was made, until any
  /// sampler draws it by any selector; items that a checkpoint loads are not fresh. An item that
  /// leaves before its turn in the queue, or weighs 0 then, is skipped, and the selector may draw
  /// in its place. Items that a draw has taken from the queue lose their place if the draw then
  /// fails, because other threads have left nothing for the rest of the batch. The selector's part
  /// of a batch may have fresh items too: those that the queue still had, and with a share of 1 the
  /// few that arrive between the two parts of a draw. As the queue gives each item once, its items
  /// have P(i) = 1 / N, whatever they weigh, and an importance weight of 1 before scaling. Such a
  /// sampler refuses `WithoutReplacement` and `Epoch`; it is refused for selectors that draw in an
  /// order, and with `max_times_sampled`.
  ///
  /// Cost: 1 byte per row of the buffer, and each shard's lock once more per batch.
  float fresh = 0.0F;
  /// The memory of the batch, for example pinned memory; must outlive the sampler. Null: the heap.
  std::pmr::memory_resource* memory = nullptr;
  /// Continues the random numbers of a saved sampler, named by its place in `SaveOptions::samplers`
  /// of the checkpoint that the buffer was loaded from. `seed` is not used.
  std::optional<std::size_t> resume = std::nullopt;
  /// The batch holds each frame of an item once, see `Batch::frames`: with `Transitions` F + n_step
  /// frames instead of 2 F, which saves copying where n_step < frame_stack; with sequences F + T
  /// frames instead of 2 T F, which always saves copying.
  bool unique_frames = false;
  /// A gather of at least this many bytes is split over oneTBB's threads.
  std::size_t parallel_gather_bytes = std::size_t{4} << 20U;
};

/// Draws batches for one learner thread.
///
/// Thread safety: one thread at a time; any number of samplers at once.
/// Progress: takes each shard's lock for a short time: once to draw, once more if writers have
/// published rows that the shard has not ingested, and once more to give pins back if the lock is
/// free. No lock is held while rows are copied. Lifetime: may outlive its buffer, which then reads
/// as closed.
class Sampler final : public BatchSource {
 public:
  /// Draws n items into the sampler's own batch, whose contents change with the next call. The
  /// result is false if the buffer is closed, or the call timed out, was stopped or found no
  /// weight.
  ///
  /// The order of a batch: `Fifo`, `Lifo`, `MinHeap` and `MaxHeap` give the first n items, each
  /// once, the first one first. Items drawn by weight are sorted by memory: shard by shard, and
  /// within a shard by row, with `RankBased` mostly from high ranks to low. That is neither random
  /// nor by time: shuffle such a batch before you cut it into parts. Items of a pass
  /// (`Draws::Epoch`) are sorted by shard only.
  ///
  /// Errors: `std::invalid_argument` for n = 0, beta outside [0, 1], a negative timeout, a batch
  /// that the rate limiter could never let through, or one that takes more different items than
  /// `Options::capacity_steps` (n without replacement or in an order, n / max_times_sampled with
  /// a limit per item); `std::bad_alloc` for more than memory holds.
  /// Cost: O(n log(items)) with one cache miss per level and item, plus the rows copied; memory is
  /// allocated only when n grows.
  SampleResult sample(std::size_t n, const SampleOptions& options = {}) &;
  /// The result would outlive its sampler: give the sampler a name.
  SampleResult sample(std::size_t, const SampleOptions& = {}) && = delete;

  /// Draws into slots [offset, offset + n) of a batch made by `ReplayBuffer::make_batch`, with or
  /// without unique frames, to keep two batches in flight, or to fill one from several buffers of
  /// one schema and window. `ByBatch` divides by the largest weight of these n items. The batch's
  /// size becomes at least offset + n.
  SampleStatus sample_into(Batch& batch, std::size_t offset, std::size_t n,
                           const SampleOptions& options = {});

  [[nodiscard]] Batch make_batch(std::size_t n,
                                 std::pmr::memory_resource* memory = nullptr) const override;
  SampleStatus sample_into(Batch& batch, const SampleOptions& options = {}) override;
  /// Calls `SelectorHandle::update` of the sampler's selector.
  UpdateResult update_priorities(std::span<const ItemKey> keys,
                                 std::span<const float> priorities) override;
  void check(const Batch& batch, const SampleOptions& options) const override;
  [[nodiscard]] SampleStatus outlook(std::size_t n) const override;

 private:
  friend struct detail::Access;
  explicit Sampler(std::unique_ptr<sampler::SamplerCore, detail::SamplerDeleter> core) noexcept
      : core_(std::move(core)) {}

  std::unique_ptr<sampler::SamplerCore, detail::SamplerDeleter> core_;
};

}  // namespace reprise
