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

/// Picks goals for items from the rows of their chunks, and from those in which their episodes go
/// on or began (`Hindsight`). One thread at a time.
class HindsightCore {
 public:
  HindsightCore(std::shared_ptr<buffer::BufferCore> core, AnyField achieved,
                const HindsightOptions& options);

  std::size_t relabel(std::span<const ItemKey> keys, std::span<std::byte> goals, DType type,
                      std::span<std::int32_t> distances);

 private:
  /// Observations before the item's own, or after it.
  enum class Side : std::uint8_t { Before, After };

  /// An item that gets a goal, and a walk over its episode, one chunk after the other.
  struct Search {
    std::uint32_t item;  ///< Its number in the block.
    std::uint32_t seen;  ///< Observations that the walk has come by.
    std::uint64_t episode;
    std::uint64_t position;  ///< Of the item's step.
    // In the chunk that the walk has come to:
    std::uint32_t chunk;
    std::uint64_t first;   ///< Position of row 0, if the episode had one there; modulo 2^64.
    std::int32_t from;     ///< The step of this row is the first of the walk.
    std::int32_t inside;   ///< A row of the episode.
    std::int32_t outside;  ///< One that is not, or none at all.
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
  std::array<std::uint32_t, kItemsAtATime> ingested_;  ///< Rows of the item's chunk.
  std::array<Search, kItemsAtATime> searches_;
  std::size_t chosen_ = 0;                          ///< Searches of this block.
  std::array<std::uint32_t, kItemsAtATime> going_;  ///< Searches whose walk goes on.
  std::size_t walks_ = 0;                           ///< How many these are.
  std::array<ItemKey, kItemsAtATime> steps_;        ///< The slots to which they go, as keys.
  PinnedItems chunks_;                              ///< Those to which they have come.
  base::OneThread one_thread_;
};

}  // namespace reprise::items
