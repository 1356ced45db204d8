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

/// Bytes of memory. `by_row`: memory that is touched only as rows are, counted for all rows;
/// `by_chunk`: memory that is in use from the beginning.
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
/// events that it has a use for. It is a final class, so the calls are not virtual ones, and an
/// event that it does not override costs nothing.
///
/// Externally synchronised by the shard's lock. Events come per run of rows, per chunk or per
/// batch; only items are removed one by one.
class RowIndex {
 public:
  RowIndex(const RowIndex&) = delete;
  RowIndex& operator=(const RowIndex&) = delete;

  /// Whether events have to be told. An index that may be off hides this function by its own.
  [[nodiscard]] static constexpr bool on() noexcept { return true; }

  /// Rows that follow the ingested ones of their chunk are about to enter. `others`: per selector,
  /// a summary of all shards.
  virtual void enter(const Rows& /*rows*/, std::span<const SelectorSummary> /*others*/) noexcept {}
  /// The oldest rows of a chunk are about to leave.
  virtual void leave(const Rows& /*rows*/) noexcept {}
  /// A chunk's state has been updated: rows entered or left, or it was closed.
  virtual void changed(std::uint32_t /*chunk*/) noexcept {}
  /// The chunk was closed, and has steps.
  virtual void filled(std::uint32_t /*chunk*/) noexcept {}
  /// The chunk has no steps left.
  virtual void emptied(std::uint32_t /*chunk*/) noexcept {}
  /// The chunk is about to be retired; rows [0, ingested) of it had entered.
  virtual void retire(std::uint32_t /*chunk*/, std::uint32_t /*ingested*/) noexcept {}

  /// Items of these places were drawn. `scratch` has an element for each.
  virtual void drawn(std::span<const storage::Place> /*places*/,
                     std::span<std::uint32_t> /*scratch*/) noexcept {}
  /// An item is removed for good. `exhausted`: whether it could not be drawn any more before that.
  virtual void removed(std::uint32_t /*leaf*/, bool /*exhausted*/) noexcept {}

  /// Writes what a checkpoint keeps of these items, the first of which is number `at` of the image.
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
