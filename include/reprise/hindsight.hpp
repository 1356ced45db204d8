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
  Future,   ///< An observation after the item's step; all are equally likely.
  Final,    ///< The last observation of the episode.
  Episode,  ///< Any observation but that at the item's step; all are equally likely.
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
/// field says what each step achieved; the goals are values of that field. The caller computes the
/// rewards under the new goals, over the whole batch.
///
/// Goals come from the steps of the episode that are in the buffer, in all chunks, up to the newest
/// step that the buffer had ingested when its shard was last locked, and from the observation after
/// each. So in an open episode `Final` is the newest of these. An episode is followed up to its
/// first chunk (`Options::chunk_steps`) that was evicted; steps beyond are not reached. Removers,
/// and to within a chunk per shard also `Fifo`, may evict a chunk before earlier chunks of its
/// episode. An evicted step may be a goal while other steps of its chunk are in the buffer.
///
/// Thread safety: one thread at a time; any number of them beside writers, samplers and updates.
/// Lifetime: may outlive its buffer, whose memory it keeps. After `ReplayBuffer::restore` it finds
/// no new item: make a new one.
class Hindsight {
 public:
  /// Picks, for a share of the items with these keys, an observation of the item's episode. Writes
  /// what the observation achieved to goals[i], and by how many steps it follows the item's step to
  /// distances[i]: at least 1, but with `Episode` also below 0. An item that is not picked, or not
  /// in the buffer any more, keeps its goal and has distance 0. Returns how many items were picked.
  /// `goals`: elements of the field, [keys, S]; for example the batch's own column of goals.
  /// Errors, all found before anything is changed: `std::invalid_argument` for a key of another
  /// buffer, and for counts or an element type that do not fit.
  /// Cost, per 2048 keys: one lock per shard touched, and a binary search in the item's chunk. Both
  /// are repeated for each later chunk of the episode, and with `Episode` for each earlier chunk;
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
