#pragma once

#include <reprise/hindsight.hpp>

#include "base/one_thread.hpp"
#include "base/random.hpp"
#include "buffer/buffer_core.hpp"
#include "sampler/pinned_items.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace reprise::sampler {

/// Picks goals for items from the rows of their chunks (`Hindsight`). One thread at a time.
class HindsightCore {
 public:
  HindsightCore(std::shared_ptr<buffer::BufferCore> core, AnyField achieved,
                const HindsightOptions& options);

  std::size_t relabel(std::span<const ItemKey> keys, std::span<std::byte> goals, DType type,
                      std::span<std::int32_t> distances);

 private:
  /// An item and how far the rows of its episode go.
  struct Search {
    std::uint32_t item;    ///< Its number in the block.
    std::int32_t row;      ///< In the chunk.
    std::int32_t inside;   ///< A row of the episode.
    std::int32_t outside;  ///< One that is not, or none at all.
  };

  void find(std::span<const ItemKey> keys) noexcept;
  void choose(std::size_t items) noexcept;
  void search() noexcept;
  [[nodiscard]] bool same_episode(const Search& search, std::int32_t row) const noexcept;
  [[nodiscard]] std::int32_t pick(std::int32_t before, std::int32_t after) noexcept;

  const std::shared_ptr<buffer::BufferCore> core_;
  const HindsightOptions options_;
  const AnyField achieved_;
  std::size_t field_bytes_;
  base::Random random_;
  // Scratch of a block.
  PinnedItems items_;
  std::array<std::uint32_t, kItemsAtATime> ingested_;  ///< Rows of the item's chunk.
  std::array<Search, kItemsAtATime> searches_;
  std::array<std::int32_t, kItemsAtATime> before_;  ///< Rows of the episode before the item's own.
  std::size_t chosen_ = 0;                          ///< Searches of this block.
  base::OneThread one_thread_;
};

}  // namespace reprise::sampler
