#pragma once

#include <reprise/item.hpp>

#include "base/memory.hpp"
#include "shard/chunk_queue.hpp"
#include "shard/row_index.hpp"
#include "storage/chunk_store.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace reprise::shard {

/// The fresh items of a shard, those that were never drawn, in a queue. Chunks are queued in the
/// order in which they got their first fresh item, and the items of a chunk row by row.
///
/// A chunk is in the queue while it has steps and rows that `take` has not reached. Nothing is kept
/// before `track` is called.
///
/// Externally synchronised by the shard's lock. Calls are O(1) amortised per row or item.
class FreshItems final : public RowIndex {
 public:
  FreshItems(storage::ChunkStore& store, const ChunkQueue& queue, std::uint32_t first_chunk)
      : store_(store), queue_(queue), first_chunk_(first_chunk) {}

  [[nodiscard]] bool enabled() const noexcept { return !links_.empty(); }
  /// Items that are ingested from now on are fresh. Throws `std::bad_alloc`, with nothing changed.
  void track() {
    if (!enabled()) {
      base::LazyArray<std::uint8_t> fresh(std::size_t{queue_.size()} * store_.chunk_rows());
      links_.resize(queue_.size());
      fresh_ = std::move(fresh);
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  // The calls below, events among them, come only after `track`.

  /// Items are no longer fresh, because they have become outdated.
  void drop(std::span<const std::uint32_t> leaves) noexcept {
    for (const std::uint32_t leaf : leaves) {
      forget(leaf);
    }
  }

  void enter(const Rows& rows, std::span<const SelectorSummary> /*others*/) noexcept override {
    const float* const priorities = store_.priorities(rows.chunk);
    std::size_t items = 0;
    for (std::uint32_t row = rows.begin; row < rows.end; ++row) {
      const bool item = storage::is_item(priorities[row]);
      fresh(rows.chunk, row) = item ? 1 : 0;
      items += item ? 1U : 0U;
    }
    size_ += items;
    if (items != 0 && !link(rows.chunk).queued) {
      append(rows.chunk, rows.begin);
    }
  }
  void leave(const Rows& rows) noexcept override {
    for (std::uint32_t row = rows.begin; row < rows.end; ++row) {
      forget(leaf(rows.chunk, row));
    }
  }
  void emptied(std::uint32_t chunk) noexcept override {
    if (link(chunk).queued) {
      remove(chunk);
    }
  }
  void drawn(std::span<const storage::Place> places,
             std::span<std::uint32_t> /*scratch*/) noexcept override {
    for (const auto [chunk, row] : places) {
      forget(leaf(chunk, row));
    }
  }
  void removed(std::uint32_t leaf, bool /*exhausted*/) noexcept override { forget(leaf); }
  [[nodiscard]] Memory memory() const noexcept override {
    return {links_.size() * store_.chunk_rows(), links_.size() * sizeof(QueueLink)};
  }

  /// Takes items from the front of the queue, as many as `leaves` has room for, and writes their
  /// leaves. They are not fresh any more. Returns how many it took.
  std::size_t take(std::span<std::uint32_t> leaves) noexcept {
    std::size_t taken = 0;
    while (taken < leaves.size() && oldest_ != storage::kNil) {
      const std::uint32_t chunk = oldest_;
      std::uint32_t& row = link(chunk).next_row;
      for (; row < queue_[chunk].ingested && taken < leaves.size(); ++row) {
        leaves[taken] = leaf(chunk, row);
        taken += fresh(chunk, row);  // 0 keeps the place in `leaves` for the next row.
        forget(leaf(chunk, row));
      }
      if (row == queue_[chunk].ingested) {
        remove(chunk);
      }
    }
    return taken;
  }

 private:
  struct QueueLink {
    std::uint32_t next_row = 0;  ///< The next row that `take` looks at.
    std::uint32_t older = storage::kNil;
    std::uint32_t newer = storage::kNil;
    bool queued = false;
  };
  [[nodiscard]] QueueLink& link(std::uint32_t chunk) noexcept {
    return links_[chunk - first_chunk_];
  }
  [[nodiscard]] std::uint32_t leaf(std::uint32_t chunk, std::uint32_t row) const noexcept {
    return (chunk - first_chunk_) * store_.chunk_rows() + row;
  }
  [[nodiscard]] std::uint8_t& fresh(std::uint32_t chunk, std::uint32_t row) noexcept {
    return fresh_[leaf(chunk, row)];
  }

  void forget(std::uint32_t leaf) noexcept {
    size_ -= fresh_[leaf];
    fresh_[leaf] = 0;
  }
  void append(std::uint32_t chunk, std::uint32_t next_row) noexcept {
    link(chunk) = {next_row, youngest_, storage::kNil, /*queued=*/true};
    link_behind(youngest_) = chunk;
    youngest_ = chunk;
  }
  void remove(std::uint32_t chunk) noexcept {
    const QueueLink own = link(chunk);
    link_behind(own.older) = own.newer;
    link_before(own.newer) = own.older;
    link(chunk) = {};
  }
  /// The link to the chunk behind this one; behind kNil is the oldest, before kNil the youngest.
  [[nodiscard]] std::uint32_t& link_behind(std::uint32_t chunk) noexcept {
    return chunk == storage::kNil ? oldest_ : link(chunk).newer;
  }
  [[nodiscard]] std::uint32_t& link_before(std::uint32_t chunk) noexcept {
    return chunk == storage::kNil ? youngest_ : link(chunk).older;
  }

  storage::ChunkStore& store_;
  const ChunkQueue& queue_;
  const std::uint32_t first_chunk_;
  base::LazyArray<std::uint8_t> fresh_;  ///< By leaf: 1 if its item is fresh.
  std::vector<QueueLink> links_;         ///< By chunk.
  std::uint32_t oldest_ = storage::kNil;
  std::uint32_t youngest_ = storage::kNil;
  std::size_t size_ = 0;
};

}  // namespace reprise::shard
