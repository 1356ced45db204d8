#include "shard/episode_index.hpp"

#include <bit>

namespace reprise::shard {
namespace {

/// How many entries the table has: at least twice as many as there can be runs. At worst each run
/// has one step. Then a row without an item follows each run or, at most twice in a chunk, a run
/// of the next block.
std::size_t capacity(std::uint32_t chunks, std::uint32_t chunk_rows) noexcept {
  return std::bit_ceil(std::size_t{chunks} * (std::size_t{chunk_rows} + 2));
}

}  // namespace

EpisodeIndex::EpisodeIndex(storage::ChunkStore& store, std::uint32_t first_chunk,
                           std::uint32_t chunks, bool enabled)
    : store_(store),
      first_chunk_(first_chunk),
      chunks_(chunks),
      enabled_(enabled),
      mask_(capacity(chunks, store.chunk_rows()) - 1),
      entries_(enabled ? mask_ + 1 : 0),
      last_(enabled ? chunks : 0) {}

Memory EpisodeIndex::memory() const noexcept {
  return {capacity(chunks_, store_.chunk_rows()) * sizeof(Entry) + chunks_ * sizeof(Run), 0};
}

/// The finaliser of MurmurHash3 over a mix of both numbers.
std::uint32_t EpisodeIndex::hash_of(std::uint64_t episode, std::uint64_t block) const noexcept {
  std::uint64_t bits = episode * 0x9E3779B97F4A7C15U + block;
  bits = (bits ^ (bits >> 33U)) * 0xFF51AFD7ED558CCDU;
  bits = (bits ^ (bits >> 33U)) * 0xC4CEB9FE1A85EC53U;
  return static_cast<std::uint32_t>(bits ^ (bits >> 33U));
}

/// Calls each(slot, hash) for every run that begins in rows [begin, end). `last` is the run of the
/// last item before these rows; it becomes that of the last item in them.
template <class Each>
void EpisodeIndex::for_each_run(std::uint32_t chunk, std::uint32_t begin, std::uint32_t end,
                                Run& last, Each each) noexcept {
  const std::uint32_t rows = store_.chunk_rows();
  const float* const priorities = store_.priorities(chunk);
  for (std::uint32_t row = begin; row < end; ++row) {
    if (!storage::is_item(priorities[row])) {
      continue;
    }
    const storage::ItemHeader item = header({chunk, row});
    const Run run{item.episode + 1, item.position() / rows};
    if (run.episode_plus_one != last.episode_plus_one || run.block != last.block) {
      last = run;
      each(chunk * rows + row, hash_of(item.episode, run.block));
    }
  }
}

void EpisodeIndex::enter(const Rows& rows, std::span<const SelectorSummary> /*others*/) noexcept {
  for_each_run(rows.chunk, rows.begin, rows.end, last_[rows.chunk - first_chunk_],
               [this](std::uint32_t slot, std::uint32_t hash) {
                 std::size_t at = hash & mask_;
                 while (entries_[at].slot_plus_one != 0) {
                   at = next(at);
                 }
                 entries_[at] = {slot + 1, hash};
               });
}

/// Erases the chunk's entries. Entries behind a hole move back into it, so that probing needs no
/// tombstones (Knuth, "The Art of Computer Programming", volume 3, algorithm 6.4R).
void EpisodeIndex::retire(std::uint32_t chunk, std::uint32_t ingested) noexcept {
  Run last;
  for_each_run(chunk, /*begin=*/0, ingested, last, [this](std::uint32_t slot, std::uint32_t hash) {
    std::size_t hole = hash & mask_;
    while (entries_[hole].slot_plus_one != slot + 1) {
      hole = next(hole);
    }
    for (std::size_t at = next(hole); entries_[at].slot_plus_one != 0; at = next(at)) {
      const std::size_t home = entries_[at].hash & mask_;
      // An entry may move into the hole unless its home lies between the hole and its place.
      if (((at - home) & mask_) >= ((at - hole) & mask_)) {
        entries_[hole] = entries_[at];
        hole = at;
      }
    }
    entries_[hole] = Entry{};
  });
  last_[chunk - first_chunk_] = Run{};
}

}  // namespace reprise::shard
