#pragma once

#include <reprise/batch.hpp>
#include <reprise/item_key.hpp>
#include <reprise/sampler.hpp>
#include <reprise/selector_totals.hpp>
#include <reprise/update_result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace reprise {

namespace buffer {
class BufferCore;
}
class ReplayBuffer;

/// One selector of a buffer: the weights by which items are drawn. Made by
/// `ReplayBuffer::selector`; a copy is the same selector.
///
/// Thread safety: every method from any thread.
/// Lifetime: may outlive its buffer, whose memory it keeps, and which then reads as closed. After
/// `ReplayBuffer::restore` it knows the former items alone: make a new one.
class SelectorHandle {
 public:
  /// The first selector of a buffer.
  SelectorHandle(
      const ReplayBuffer& buffer);  // NOLINT(google-explicit-constructor): parts convert.

  /// Sets raw priorities, such as absolute TD errors, of the named items. The last of repeated keys
  /// counts; stale keys are counted and skipped.
  /// Errors, all found before anything is changed: `std::invalid_argument` for counts that differ,
  /// a priority that is NaN, infinite, negative or too large to be weighed, or a key of another
  /// buffer.
  /// Cost, per 2048 keys: one lock per shard touched; each touched tree node is written about once.
  UpdateResult update(std::span<const ItemKey> keys, std::span<const float> priorities);

  /// The present raw priorities of the items with these keys, in their sequence: the smallest that
  /// weighs as much as the item, so to set them again changes no weight. Within 2^-22 / alpha of
  /// what was set, relative to priority + epsilon; `decay` and `set_alpha` change it. NaN for an
  /// item that is gone or exhausted. Where priorities change no weight (`Uniform`, `Recency`,
  /// `Fifo`, `Lifo`, an alpha of 0) the numbers say nothing, and `LossAdjusted` has 0 for all up
  /// to 1. Returns how many items are still there. Errors: `std::invalid_argument` for counts that
  /// differ, or a key of another buffer. Cost, per 2048 keys: one lock per shard touched; 31 times
  /// what it costs to weigh the keys.
  // NOLINTNEXTLINE(modernize-use-nodiscard): the priorities tell it too.
  std::size_t priorities(std::span<const ItemKey> keys, std::span<float> priorities) const;

  /// Sum and maximum of the weights, and the number of items, everything committed before the call
  /// included. Cost: that of `ReplayBuffer::size`, and all shards' locks for a moment.
  [[nodiscard]] SelectorTotals totals() const;

  /// Sets the exponent of a `Proportional`, `LossAdjusted` or `Mixture` selector, or of one of your
  /// own whose rule has an alpha. Every weight w becomes w^(alpha / present alpha), which is the
  /// weight of its priority with the new exponent, and later priorities are weighed with it. A
  /// weight of 0 stays 0, so a priority that was too small for the old exponent is lost. A weight
  /// that a float cannot hold becomes the largest float, or 2^-126. An alpha of 0 makes all others
  /// 1, for good. A weight keeps a relative error of about 2^-24 * alpha / present alpha.
  /// `ReplayBuffer::options` still reports the original exponent. All shards' locks are held, so no
  /// shard is ever seen half changed, and draws that hold all locks never see the buffer half
  /// changed. Another draw in flight may meet one shard before the change and the next one after
  /// it, and reports the probabilities with which it really drew. An update in flight writes each
  /// of its keys before or after the change. Errors: `std::invalid_argument` for an alpha outside 0
  /// to 8 or with which epsilon or the initial constant weighs infinity, a selector without an
  /// exponent to set, one of your own that does not take it, or a present alpha of 0, with which
  /// every weight is 1 and nothing can be inverted. A call that throws has changed nothing. Cost:
  /// O(items): a few milliseconds per million.
  void set_alpha(float alpha);

  /// The present exponent that `set_alpha` changes: that of the options, or the last one given to
  /// `set_alpha`, also before a checkpoint was saved.
  /// Errors: `std::invalid_argument` for a selector without one.
  [[nodiscard]] float alpha() const;

  /// Multiplies the weight of every item committed before the call by a factor above 0 and at most
  /// 1. It scales weights, not priorities: a factor of x^alpha scales priorities by x. Later
  /// priorities count in full; for a new item without a priority, the maximum in the buffer has
  /// decayed with its item, the highest priority ever seen has not. Each product is rounded to a
  /// float by itself: with a factor within a few 2^-24 of 1, some weights decay by up to twice as
  /// much as asked and others by less, so decay less often by a smaller factor. A weight above 0 is
  /// never below 2^-126 afterwards, and may still be drawn. All shards' locks are held, as in
  /// `set_alpha`.
  /// Errors: `std::invalid_argument` for a factor outside (0, 1], or a selector that cannot decay:
  /// `Proportional`, `LossAdjusted` and `Mixture` can, and one of your own whose shard selectors do
  /// or are the default ones. Cost: O(items), about a millisecond per million, and the cost of
  /// `ReplayBuffer::size`.
  void decay(float factor);

  /// Gives every item committed before the call this raw priority, as `update` of all keys would,
  /// for example after a network was reset. Updates are not counted. All shards' locks are held, as
  /// in `set_alpha`. Errors: those of `update`. Cost: O(items), and the cost of
  /// `ReplayBuffer::size`.
  void reset(float priority = 1.0F);

  /// A sampler for one learner thread, which draws by this selector. Errors:
  /// `std::invalid_argument` naming the option.
  [[nodiscard]] Sampler sampler(const SamplerOptions& options = {}) const;

 private:
  friend class MixedSampler;
  friend class ReplayBuffer;
  SelectorHandle(std::shared_ptr<buffer::BufferCore> core, std::size_t place) noexcept;

  std::shared_ptr<buffer::BufferCore> core_;
  std::size_t place_;
};

/// The items of a buffer by episode and position, which are those of `Batch::episode_ids` and
/// `positions` or of `Writer::episode_id`. Made by `ReplayBuffer::episodes`, if the buffer has
/// `Options::episode_index`. Each call finds everything that was committed before it.
///
/// Thread safety: every method from any thread. Lifetime: as `SelectorHandle`.
class Episodes {
 public:
  /// The key of the item that begins with a step; none if no item begins there, or it is gone or
  /// not decided yet. Cost: a lock per shard.
  [[nodiscard]] std::optional<ItemKey> find(std::uint64_t episode, std::uint64_t position);

  /// Sets the priorities of consecutive steps of an episode, from this position on, for the
  /// selector with this place. Steps without an item, and those whose item is gone or not decided
  /// yet, count as stale. Errors: as `SelectorHandle::update`, and `std::invalid_argument` for an
  /// unknown selector.
  UpdateResult update_priorities(std::uint64_t episode, std::uint64_t position,
                                 std::span<const float> priorities, std::size_t selector = 0);

  /// `ReplayBuffer::gather` of the items that begin with consecutive steps of an episode, from this
  /// position on, into places [offset, offset + steps). What `find` would not find is marked as a
  /// stale key is, and has a stale key. Errors: as there.
  /// Cost, per 2048 steps: a lock per shard, and a search in each for each step.
  std::size_t gather(std::uint64_t episode, std::uint64_t position, std::size_t steps, Batch& batch,
                     std::size_t offset = 0);
  /// Likewise, into a batch of its own.
  [[nodiscard]] Batch gather(std::uint64_t episode, std::uint64_t position, std::size_t steps);

  /// Removes all items of an episode that were decided before the call, as `ReplayBuffer::remove`;
  /// later ones are not removed. Returns how many were removed. Cost: the cost of
  /// `ReplayBuffer::size`, and for each shard a pass over its index, a millisecond per million
  /// rows.
  std::size_t remove(std::uint64_t episode);

 private:
  friend class ReplayBuffer;
  explicit Episodes(std::shared_ptr<buffer::BufferCore> core) noexcept;

  std::shared_ptr<buffer::BufferCore> core_;
};

}  // namespace reprise
