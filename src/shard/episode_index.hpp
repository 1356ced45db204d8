#pragma once

#include "base/memory.hpp"
#include "storage/chunk_store.hpp"
#include "storage/row_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

namespace reprise::shard {

/// Finds the row with which an item begins by episode and position.
///
/// Steps of an episode that follow each other in a chunk lie in rows that follow each other, so one
/// entry stands for a whole run of them. A run ends with its episode, with its chunk, and wherever
/// the position is a multiple of the rows of a chunk: so every position belongs to one block, and
/// the run that has it is found under its episode and block. Entries stay until the chunk is
/// retired.
///
/// An open-addressing hash table of fixed size with linear probing, at most about half full.
/// Externally synchronised by the shard's lock.
class EpisodeIndex {
 public:
  /// For chunks numbered from `first_chunk`. Without `enabled` nothing is kept, and no memory
  /// taken.
  EpisodeIndex(storage::ChunkStore& store, std::uint32_t first_chunk, std::uint32_t chunks,
               bool enabled);

  [[nodiscard]] static std::size_t bytes(std::uint32_t chunks, std::uint32_t chunk_rows) noexcept;
  [[nodiscard]] bool enabled() const noexcept { return enabled_; }

  /// Rows [begin, end) of a chunk enter; all before them have. O(end - begin): reads their headers.
  void insert(std::uint32_t chunk, std::uint32_t begin, std::uint32_t end) noexcept;
  /// Rows [0, end) of a chunk, all that entered, leave. O(end).
  void erase(std::uint32_t chunk, std::uint32_t end) noexcept;

  /// Where the item of this step is, if there is one. `selected` says of a place whether it is
  /// among the rows that entered and have not been deselected. O(1) expected, two cache misses or
  /// so.
  template <class Selected>
  [[nodiscard]] std::optional<storage::Place> find(std::uint64_t episode, std::uint64_t position,
                                                   Selected selected) noexcept {
    const std::uint32_t rows = store_.chunk_rows();
    const std::uint32_t hash = hash_of(episode, position / rows);
    for (std::size_t at = hash & mask_; entries_[at].slot_after != 0; at = next(at)) {
      if (entries_[at].hash != hash) {
        continue;
      }
      const storage::Place first = store_.place(entries_[at].slot_after - 1);
      const storage::ItemHeader run = header(first);
      if (run.episode != episode || position < run.position() ||
          position - run.position() >= rows - first.row) {
        continue;
      }
      const storage::Place place{first.chunk,
                                 first.row + static_cast<std::uint32_t>(position - run.position())};
      // The rest of the run may be in another chunk, or the episode may have ended before.
      if (selected(place) && storage::is_item(store_.priorities(place.chunk)[place.row]) &&
          header(place).episode == episode && header(place).position() == position) {
        return place;
      }
    }
    return std::nullopt;
  }

 private:
  /// Of a run's first row.
  struct Entry {
    std::uint32_t slot_after = 0;  ///< Its slot, plus 1; 0 if the entry is free.
    std::uint32_t hash = 0;
  };
  /// The run that the last item of a chunk belongs to.
  struct Run {
    std::uint64_t episode_after = 0;  ///< Its episode, plus 1; 0 before the first item.
    std::uint64_t block = 0;
  };

  [[nodiscard]] storage::ItemHeader header(storage::Place place) noexcept {
    storage::ItemHeader header;
    std::memcpy(&header, store_.row(place.chunk, place.row), sizeof(header));
    return header;
  }
  template <class Each>
  void for_each_run(std::uint32_t chunk, std::uint32_t begin, std::uint32_t end, Run& last,
                    Each each) noexcept;
  [[nodiscard]] std::uint32_t hash_of(std::uint64_t episode, std::uint64_t block) const noexcept;
  [[nodiscard]] std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask_; }
  void put(std::uint32_t slot, std::uint32_t hash) noexcept;
  void take_out(std::uint32_t slot, std::uint32_t hash) noexcept;

  storage::ChunkStore& store_;
  const std::uint32_t first_chunk_;
  const bool enabled_;
  const std::size_t mask_;
  base::LazyArray<Entry> entries_;
  base::LazyArray<Run> last_;  ///< Per chunk.
};

}  // namespace reprise::shard
