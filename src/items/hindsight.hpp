#pragma once

#include <reprise/hindsight.hpp>

#include "base/one_thread.hpp"
#include "base/random.hpp"
#include "buffer/buffer_core.hpp"
#include "items/pinned_items.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace reprise::items {

/// Picks goals for items from the rows of their chunks, and of the chunks in which their episodes
/// go on or began (`Hindsight`). One thread at a time.
class HindsightCore {
 public:
  HindsightCore(std::shared_ptr<buffer::BufferCore> core, AnyField achieved,
                const HindsightOptions& options);

  std::size_t relabel(std::span<const ItemKey> keys, std::span<std::byte> goals, DType type,
                      std::span<std::int32_t> distances);

 private:
  /// Whether goals are looked for before the item's own observation or after it.
  enum class Side : std::uint8_t { Before, After };

  /// An item that gets a goal, and a walk over its episode, one chunk after the other.
  struct Search {
    std::uint32_t item;  ///< The item's index in the block.
    std::uint32_t seen;  ///< Observations that the walk has passed.
    std::uint64_t episode;
    std::uint64_t position;  ///< The position of the item's step.
    // Members about the chunk that the walk is in:
    std::uint32_t chunk;
    std::uint64_t first;   ///< Position of row 0 if all rows were of the episode; modulo 2^64.
    std::int32_t from;     ///< The walk begins with the step of this row.
    std::int32_t inside;   ///< The farthest row that the search knows to be of the episode.
    std::int32_t outside;  ///< The nearest row beyond that is not; a bound of the chunk at first.
  };

  void find(std::span<const ItemKey> keys) noexcept;
  void choose(std::size_t items) noexcept;
  void walk(Side side, std::span<std::byte> goals, std::span<std::int32_t> distances) noexcept;
  void begin(Side side) noexcept;
  void search() noexcept;
  void skip_context() noexcept;
  void pick(Side side, std::span<std::byte> goals, std::span<std::int32_t> distances) noexcept;
  void go_on(Side side) noexcept;
  void look_ahead() noexcept;
  void look_back() noexcept;
  [[nodiscard]] bool same_episode(const Search& search, std::int32_t row) const noexcept;
  [[nodiscard]] static std::uint64_t position_of(const Search& search, std::int32_t row) noexcept;
  [[nodiscard]] storage::ItemHeader header(storage::Place place) const noexcept;
  [[nodiscard]] std::int32_t end_of(std::uint32_t ingested) const noexcept;

  const std::shared_ptr<buffer::BufferCore> core_;
  const HindsightOptions options_;
  const AnyField achieved_;
  std::size_t field_bytes_;
  base::Random random_;
  // Scratch of a block.
  PinnedItems items_;
  std::array<std::uint32_t, kItemsAtATime> ingested_;  ///< Ingested rows of each item's chunk.
  std::array<Search, kItemsAtATime> searches_;
  std::size_t chosen_ = 0;                          ///< The number of searches in this block.
  std::array<std::uint32_t, kItemsAtATime> going_;  ///< Searches whose walk goes on.
  std::size_t walks_ = 0;                           ///< The number of searches in `going_`.
  std::array<ItemKey, kItemsAtATime> steps_;        ///< The slots of the next steps, as keys.
  PinnedItems chunks_;                              ///< The chunks that the walks are in.
  base::OneThread one_thread_;
};

}  // namespace reprise::items
