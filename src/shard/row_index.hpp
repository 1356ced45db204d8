#pragma once

#include <reprise/selector.hpp>

#include "shard/shard_image.hpp"
#include "storage/chunk_store.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::shard {

/// Rows [begin, end) of a chunk.
struct Rows {
  std::uint32_t chunk = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::size_t steps = 0;         ///< Steps among them.
  std::uint32_t first_leaf = 0;  ///< Leaf of row `begin`.

  [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
};

/// Bytes of memory. `by_row`: for all rows, although only the parts of used rows are touched;
/// `by_chunk`: touched from the beginning.
struct Memory {
  std::size_t by_row = 0;
  std::size_t by_chunk = 0;

  Memory& operator+=(const Memory& other) noexcept {
    by_row += other.by_row;
    by_chunk += other.by_chunk;
    return *this;
  }
};

/// The most items in a call of `store` or `restore`.
inline constexpr std::size_t kItemsAtATime = 512;

/// Data that a shard keeps about its rows, such as weights, draws and episodes. A `LockedShard`
/// tells each event once to all its indices (`LockedShard::notify_indices`). An index overrides the
/// events that it has a use for. Each index is a final class and called as such, so no call is a
/// virtual one, and an event that the index does not override costs nothing.
///
/// Externally synchronised by the shard's lock. Events come per run of rows, per chunk or per
/// batch; only items are removed one by one.
class RowIndex {
 public:
  RowIndex(const RowIndex&) = delete;
  RowIndex& operator=(const RowIndex&) = delete;

  /// Whether the index keeps anything. If not, it is told no events. An index that a buffer may do
  /// without hides this function by its own.
  [[nodiscard]] static constexpr bool enabled() noexcept { return true; }

  /// These rows are about to be ingested; they follow the ingested rows of their chunk. `others`:
  /// per selector, a summary of all shards.
  virtual void enter(const Rows& /*rows*/, std::span<const SelectorSummary> /*others*/) noexcept {}
  /// These rows, the oldest of their chunk, are about to be deselected.
  virtual void leave(const Rows& /*rows*/) noexcept {}
  /// A chunk's state has been updated: rows entered or left, or it was closed.
  virtual void changed(std::uint32_t /*chunk*/) noexcept {}
  /// The chunk was closed, and has steps.
  virtual void filled(std::uint32_t /*chunk*/) noexcept {}
  /// The chunk has no steps left.
  virtual void emptied(std::uint32_t /*chunk*/) noexcept {}
  /// The chunk is about to be retired; its rows [0, ingested) were ingested once.
  virtual void retire(std::uint32_t /*chunk*/, std::uint32_t /*ingested*/) noexcept {}

  /// The items in these places were drawn. `scratch` has an element for each item.
  virtual void drawn(std::span<const storage::Place> /*places*/,
                     std::span<std::uint32_t> /*scratch*/) noexcept {}
  /// An item is removed for good. `exhausted`: it was exhausted before that.
  virtual void removed(std::uint32_t /*leaf*/, bool /*exhausted*/) noexcept {}

  /// Writes what a checkpoint keeps of these items; the first is item number `at` of the image.
  virtual void store(std::span<const std::uint32_t> /*leaves*/, ShardImage& /*image*/,
                     std::size_t /*at*/) const noexcept {}
  /// Restores what `store` wrote of these items, which have just entered.
  virtual void restore(std::span<const std::uint32_t> /*leaves*/, const ShardImage& /*image*/,
                       std::size_t /*at*/) noexcept {}

  /// For `Stats`.
  [[nodiscard]] virtual Memory memory() const noexcept { return {}; }

 protected:
  RowIndex() = default;
  ~RowIndex() = default;
};

}  // namespace reprise::shard
