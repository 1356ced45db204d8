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
/// whole run of steps. Positions are cut into blocks of as many as a chunk has rows, and a run ends
/// with its episode, its chunk or its block. So a run is found by episode and block. Entries stay
/// until the chunk is retired.
///
/// An open-addressing hash table of fixed size with linear probing, at most about half full.
/// Externally synchronised by the shard's lock.
class EpisodeIndex final : public RowIndex {
 public:
  /// For the `chunks` chunks that begin with `first_chunk`. If not `enabled`, nothing is kept, no
  /// memory is taken and no event has to be told.
  EpisodeIndex(storage::ChunkStore& store, std::uint32_t first_chunk, std::uint32_t chunks,
               bool enabled);

  [[nodiscard]] bool on() const noexcept { return enabled_; }

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

  /// Calls each(place, position, rows) for every run of an episode's items whose positions are in
  /// this block: the place and the position of its first row, and how many of the rows below
  /// end_of(chunk) belong to it. Rows without an item may be among them. Returns whether there is
  /// any run. O(log rows) for each, and O(rows without an item that follow each other).
  template <class End, class Each>
  bool for_each_run_of(std::uint64_t episode, std::uint64_t block, End end_of, Each each) noexcept {
    const std::uint32_t hash = hash_of(episode, block);
    bool any = false;
    for (std::size_t at = hash & mask_; entries_[at].slot_plus_one != 0; at = next(at)) {
      const storage::Place first = store_.place(entries_[at].slot_plus_one - 1);
      if (entries_[at].hash != hash) {
        continue;
      }
      const storage::ItemHeader run = header(first);
      const std::uint64_t position = run.position();
      const std::uint32_t rows = store_.chunk_rows();
      if (run.episode == episode && position / rows == block) {
        const auto left = static_cast<std::uint32_t>(rows - position % rows);
        const std::uint32_t most = std::min(end_of(first.chunk), first.row + left);
        each(first, position, rows_of(first, episode, most));
        any = true;
      }
    }
    return any;
  }

  /// Calls each(place) for every item of an episode whose row is below end_of(chunk), in any order,
  /// and for some of them twice. O(rows of the shard).
  template <class End, class Each>
  void for_each_item_of(std::uint64_t episode, End end_of, Each each) noexcept {
    for (std::size_t at = 0; at < entries_.size(); ++at) {
      if (entries_[at].slot_plus_one == 0) {
        continue;
      }
      storage::Place place = store_.place(entries_[at].slot_plus_one - 1);
      const float* const priorities = store_.priorities(place.chunk);
      // Rows without an item have no header of their own.
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
  /// How many rows from this item's on, and below `end`, are of its episode. The rows of an episode
  /// follow each other in a chunk; one without an item, which has no header of its own, is taken
  /// for one of the episode before it.
  [[nodiscard]] std::uint32_t rows_of(storage::Place first, std::uint64_t episode,
                                      std::uint32_t end) noexcept {
    const float* const priorities = store_.priorities(first.chunk);
    std::uint32_t inside = first.row;
    while (end - inside > 1) {
      const std::uint32_t middle = inside + (end - inside) / 2;
      storage::Place item{first.chunk, middle};
      while (!storage::is_item(priorities[item.row])) {
        --item.row;
      }
      (header(item).episode == episode ? inside : end) = middle;
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
