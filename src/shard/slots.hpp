#pragma once

#include <reprise/item.hpp>

#include "storage/chunk_store.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::shard {

/// Memory for the results of draws. Each span has one element per draw, or none if the plan of the
/// draw does not use the span.
struct Slots {
  std::span<ItemKey> keys;
  std::span<storage::Place> places;  ///< The items' first rows.
  std::span<std::uint32_t> leaves;   ///< Scratch.
  /// Output: the pinned chunks, each to be unpinned once. Empty: no rows will be read, so nothing
  /// is pinned.
  std::span<std::uint32_t> pinned;
  std::span<float> weights{};
  std::span<double> probabilities{};

  [[nodiscard]] std::size_t size() const noexcept { return keys.size(); }
  /// `count` slots from number `begin` on.
  [[nodiscard]] Slots sub(std::size_t begin, std::size_t count) const noexcept {
    const auto part = [&](auto span) { return span.empty() ? span : span.subspan(begin, count); };
    return {part(keys),   part(places),  part(leaves),
            part(pinned), part(weights), part(probabilities)};
  }
  [[nodiscard]] Slots from(std::size_t begin) const noexcept { return sub(begin, size() - begin); }
  /// Moves `count` results from the slots that begin with `first` to earlier ones, from `to` on.
  void move(std::size_t first, std::size_t to, std::size_t count) const noexcept {
    const auto move_part = [&](auto span) {
      if (first != to && !span.empty()) {
        std::ranges::copy(span.subspan(first, count), span.subspan(to).begin());
      }
    };
    move_part(keys), move_part(places), move_part(leaves);
    move_part(pinned), move_part(weights), move_part(probabilities);
  }
};

/// The results of a draw.
struct Drawn {
  std::size_t items = 0;  ///< How many of the slots, from the first, have a drawn item.
  std::size_t pins = 0;   ///< The number of elements in Slots::pinned.
  double total = 0.0;     ///< For draws by weight, the sum of the shard's weights.
};

}  // namespace reprise::shard
