#pragma once

#include "base/memory.hpp"
#include "storage/chunk_store.hpp"
#include "storage/row_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

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
class EpisodeIndex {
 public:
  /// For the `chunks` chunks that begin with `first_chunk`. If not `enabled`, nothing is kept and
  /// no memory is taken.
  EpisodeIndex(storage::ChunkStore& store, std::uint32_t first_chunk, std::uint32_t chunks,
               bool enabled);

  [[nodiscard]] static std::size_t bytes(std::uint32_t chunks, std::uint32_t chunk_rows) noexcept;
  [[nodiscard]] bool enabled() const noexcept { return enabled_; }

  /// Enters rows [begin, end) of a chunk; all rows before them have entered. O(end - begin),
  /// because it reads their headers.
  void insert(std::uint32_t chunk, std::uint32_t begin, std::uint32_t end) noexcept;
  /// Takes out rows [0, end) of a chunk, which have to be all that entered. O(end).
  void erase(std::uint32_t chunk, std::uint32_t end) noexcept;

  /// The place of the item that begins with this step, if there is one. `selected` says whether a
  /// place is among the rows that entered and have not been deselected. Expected O(1), about two
  /// cache misses.
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
      // The place may be beyond the run: the run may continue in another chunk, or the episode may
      // have ended.
      if (selected(place) && storage::is_item(store_.priorities(place.chunk)[place.row]) &&
          header(place).episode == episode && header(place).position() == position) {
        return place;
      }
    }
    return std::nullopt;
  }

 private:
  /// An entry of the table names the first row of a run.
  struct Entry {
    std::uint32_t slot_after = 0;  ///< Its slot, plus 1; 0 if the entry is free.
    std::uint32_t hash = 0;
  };
  /// The run to which the last item of a chunk belongs.
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

  storage::ChunkStore& store_;
  const std::uint32_t first_chunk_;
  const bool enabled_;
  const std::size_t mask_;
  base::LazyArray<Entry> entries_;
  base::LazyArray<Run> last_;  ///< Per chunk.
};

}  // namespace reprise::shard
