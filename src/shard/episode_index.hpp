#pragma once

#include "base/memory.hpp"
#include "shard/row_index.hpp"
#include "storage/chunk_store.hpp"
#include "storage/row_layout.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace reprise::shard {

/// Finds the first row of an item by its episode and position.
///
/// Consecutive steps of an episode lie in consecutive rows of a chunk, so one entry stands for a
/// whole run of steps. Positions are divided into blocks of as many positions as a chunk has rows.
/// A run ends with its episode, its chunk or its block, so it is found by its episode and block.
/// Entries stay until the chunk is retired.
///
/// An open-addressing hash table of fixed size with linear probing, at most about half full.
/// Externally synchronised by the shard's lock.
class EpisodeIndex final : public RowIndex {
 public:
  /// For chunks [first_chunk, first_chunk + chunks). If not `enabled`, the index keeps nothing and
  /// takes no memory.
  EpisodeIndex(storage::ChunkStore& store, std::uint32_t first_chunk, std::uint32_t chunks,
               bool enabled);

  [[nodiscard]] bool enabled() const noexcept { return enabled_; }

  /// O(rows), because it reads their headers.
  void enter(const Rows& rows, std::span<const SelectorSummary> others) noexcept override;
  /// O(ingested).
  void retire(std::uint32_t chunk, std::uint32_t ingested) noexcept override;
  [[nodiscard]] Memory memory() const noexcept override;

  /// The place of the item that begins with this step, if there is one. holds_item(place) tells
  /// whether a place has an item that was neither evicted nor removed. Expected O(1), about two
  /// cache misses.
  template <class HoldsItem>
  [[nodiscard]] std::optional<storage::Place> find(std::uint64_t episode, std::uint64_t position,
                                                   HoldsItem holds_item) noexcept {
    const std::uint32_t rows = store_.chunk_rows();
    const std::uint32_t hash = hash_of(episode, position / rows);
    for (std::size_t at = hash & mask_; entries_[at].slot_plus_one != 0; at = next(at)) {
      if (entries_[at].hash != hash) {
        continue;
      }
      const storage::Place first = store_.place(entries_[at].slot_plus_one - 1);
      const storage::ItemHeader run = header(first);
      if (run.episode != episode || position < run.position() ||
          position - run.position() >= rows - first.row) {
        continue;
      }
      const storage::Place place{first.chunk,
                                 first.row + static_cast<std::uint32_t>(position - run.position())};
      // The place may be beyond the run: the run may continue in another chunk, or the episode may
      // have ended.
      if (holds_item(place) && header(place).episode == episode &&
          header(place).position() == position) {
        return place;
      }
    }
    return std::nullopt;
  }

  /// Calls each(place, position, rows) for every run of the episode in this block of positions: the
  /// place and position of the run's first row, and how many rows it has below end_of(chunk). Rows
  /// without an item may be among them. Returns whether there is such a run. O(log rows) for each
  /// run, and O(rows of the longest stretch without an item).
  template <class End, class Each>
  bool for_each_run_of(std::uint64_t episode, std::uint64_t block, End end_of, Each each) noexcept {
    const std::uint32_t hash = hash_of(episode, block);
    bool found = false;
    for (std::size_t at = hash & mask_; entries_[at].slot_plus_one != 0; at = next(at)) {
      const storage::Place first = store_.place(entries_[at].slot_plus_one - 1);
      if (entries_[at].hash != hash) {
        continue;
      }
      const storage::ItemHeader run = header(first);
      const std::uint64_t position = run.position();
      const std::uint32_t rows = store_.chunk_rows();
      if (run.episode == episode && position / rows == block) {
        const auto rows_of_block = static_cast<std::uint32_t>(rows - position % rows);
        const std::uint32_t end = std::min(end_of(first.chunk), first.row + rows_of_block);
        each(first, position, count_rows(first, episode, end));
        found = true;
      }
    }
    return found;
  }

  /// Calls each(place) for every item of an episode whose row is below end_of(chunk), in any order.
  /// An item may come twice, because each run is followed to the end of its episode. O(rows of the
  /// shard).
  template <class End, class Each>
  void for_each_item_of(std::uint64_t episode, End end_of, Each each) noexcept {
    for (std::size_t at = 0; at < entries_.size(); ++at) {
      if (entries_[at].slot_plus_one == 0) {
        continue;
      }
      storage::Place place = store_.place(entries_[at].slot_plus_one - 1);
      const float* const priorities = store_.priorities(place.chunk);
      // Rows without an item have no header, so they are passed over.
      for (const std::uint32_t end = end_of(place.chunk);
           place.row < end &&
           (!storage::is_item(priorities[place.row]) || header(place).episode == episode);
           ++place.row) {
        if (storage::is_item(priorities[place.row])) {
          each(place);
        }
      }
    }
  }

 private:
  /// An entry of the table names the first row of a run.
  struct Entry {
    std::uint32_t slot_plus_one = 0;  ///< Its slot, plus 1; 0 if the entry is free.
    std::uint32_t hash = 0;
  };
  /// The run to which the last item of a chunk belongs.
  struct Run {
    std::uint64_t episode_plus_one = 0;  ///< Its episode, plus 1; 0 before the first item.
    std::uint64_t block = 0;
  };

  [[nodiscard]] storage::ItemHeader header(storage::Place place) noexcept {
    storage::ItemHeader header;
    std::memcpy(&header, store_.row(place.chunk, place.row), sizeof(header));
    return header;
  }
  /// How many rows of this episode there are from row `first` on and below row `end`. The rows of
  /// an episode follow each other in a chunk. A row without an item has no header, and counts as
  /// one of the episode before it.
  [[nodiscard]] std::uint32_t count_rows(storage::Place first, std::uint64_t episode,
                                         std::uint32_t end) noexcept {
    const float* const priorities = store_.priorities(first.chunk);
    std::uint32_t inside = first.row;
    while (end - inside > 1) {
      const std::uint32_t middle = inside + (end - inside) / 2;
      storage::Place item{first.chunk, middle};
      while (!storage::is_item(priorities[item.row])) {
        --item.row;
      }
      if (header(item).episode == episode) {
        inside = middle;
      } else {
        end = middle;
      }
    }
    return end - first.row;
  }
  template <class Each>
  void for_each_run(std::uint32_t chunk, std::uint32_t begin, std::uint32_t end, Run& last,
                    Each each) noexcept;
  [[nodiscard]] std::uint32_t hash_of(std::uint64_t episode, std::uint64_t block) const noexcept;
  [[nodiscard]] std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask_; }

  storage::ChunkStore& store_;
  const std::uint32_t first_chunk_;
  const std::uint32_t chunks_;
  const bool enabled_;
  const std::size_t mask_;
  base::LazyArray<Entry> entries_;
  base::LazyArray<Run> last_;  ///< The run of each chunk's last item.
};

}  // namespace reprise::shard
