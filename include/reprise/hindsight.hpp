#pragma once

#include <reprise/item.hpp>
#include <reprise/schema.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace reprise {

namespace items {
class HindsightCore;
}
namespace detail {
struct Access;
struct HindsightDeleter {
  void operator()(items::HindsightCore* core) const noexcept;
};
}  // namespace detail

/// Which observation of an item's episode becomes its goal, in the words of Andrychowicz et al.,
/// "Hindsight experience replay", 2017, section 4.5.
enum class HindsightGoal : std::uint8_t {
  Future,   ///< One after the item's step, each as likely as the others.
  Final,    ///< The last one of the episode.
  Episode,  ///< Any of the episode, except at the item's step, with equal probability.
};

/// How goals are picked.
struct HindsightOptions {
  /// The observations among which a goal is picked.
  HindsightGoal goal = HindsightGoal::Future;
  /// The share of items that get another goal, 0 to 1. The paper replays each item k = 4 times with
  /// another goal and once with its own: a share of 4 / (4 + 1).
  float share = 0.8F;
  /// Seeds the random generator that picks goals.
  std::uint64_t seed = 0;
};

/// Gives items goals that their episode did achieve: hindsight experience replay. An observation
/// field says what each step achieved; the goals are values of it. Rewards under the new goals are
/// the caller's to compute, over the whole batch.
///
/// What it reaches: the steps of the episode that are in the buffer, in all chunks, up to the
/// newest that the buffer had ingested when their shard was last locked, and the observation after
/// each. So in an open episode `Final` is the newest. An episode is followed up to its first chunk
/// (`Options::chunk_steps`) that was evicted; what lies beyond is not reached. Removers, and to
/// within a chunk per shard also `Fifo`, may evict a chunk before earlier ones of its episode. An
/// evicted step may be a goal while other steps of its chunk are in the buffer.
///
/// Thread safety: one thread at a time; any number of them beside writers, samplers and updates.
/// Lifetime: may outlive its buffer, whose memory it keeps. After `ReplayBuffer::restore` it finds
/// no new item: make a new one.
class Hindsight {
 public:
  /// Picks, for a share of the items with these keys, an observation of their episode, writes what
  /// it achieved over goals[i], and how many steps it is after the item's step to distances[i]: at
  /// least 1, but with `Episode` also below 0. An item that is not picked, or no longer there,
  /// keeps its goal and has distance 0. Returns how many were picked.
  /// `goals`: elements of the field, [keys, S]; for example the batch's own column of goals.
  /// Errors, all found before anything is changed: `std::invalid_argument` for a key of another
  /// buffer, and for counts or an element type that do not fit.
  /// Cost, per 2048 keys: one lock per shard touched, and a binary search in the item's chunk. Both
  /// are repeated for each later chunk of the episode, and with `Episode` for each earlier one;
  /// `Episode` then also reads a word of every chunk of the buffer. Allocates nothing.
  template <Element T>
  std::size_t relabel(std::span<const ItemKey> keys, std::span<T> goals,
                      std::span<std::int32_t> distances) {
    return relabel(keys, std::as_writable_bytes(goals), kDType<T>, distances);
  }
  /// The same for a field whose type is known only at run time; `type` is that of the goals.
  std::size_t relabel(std::span<const ItemKey> keys, std::span<std::byte> goals, DType type,
                      std::span<std::int32_t> distances);

 private:
  friend struct detail::Access;
  explicit Hindsight(std::unique_ptr<items::HindsightCore, detail::HindsightDeleter> core) noexcept
      : core_(std::move(core)) {}

  std::unique_ptr<items::HindsightCore, detail::HindsightDeleter> core_;
};

}  // namespace reprise
