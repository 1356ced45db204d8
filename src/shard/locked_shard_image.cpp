#include "shard/locked_shard.hpp"
#include "shard/shard_image.hpp"

#include <algorithm>
#include <array>

namespace reprise::shard {
namespace {

/// Calls each(leaves, number of the items before them) for the items of rows [begin, end), at most
/// `kItemsAtATime` at a time, and returns the number of all these items.
template <class Each>
std::size_t for_each_item(const float* priorities, std::uint32_t first_leaf, std::uint32_t begin,
                          std::uint32_t end, Each each) {
  std::array<std::uint32_t, kItemsAtATime>
      leaves;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::size_t count = 0;
  std::size_t done = 0;
  for (std::uint32_t row = begin; row < end; ++row) {
    if (!storage::is_item(priorities[row])) {
      continue;
    }
    leaves[count++] = first_leaf + row;
    if (count == kItemsAtATime) {
      each(std::span<const std::uint32_t>(leaves), done);
      done += count;
      count = 0;
    }
  }
  if (count != 0) {
    each(std::span<const std::uint32_t>(leaves).first(count), done);
  }
  return done + count;
}

}  // namespace

ShardImage::ShardImage(std::size_t chunk_count, std::size_t rows, std::size_t selectors,
                       bool draws_limited)
    : memories(selectors), draws(draws_limited ? rows : 0) {
  chunks.reserve(chunk_count);
  generations.resize(chunk_count);
  free.resize(chunk_count);
  open.resize(chunk_count);
  stored.reserve(selectors);
  for (std::size_t s = 0; s < selectors; ++s) {
    stored.emplace_back(rows);
  }
}

void LockedShard::store(ShardImage& image) noexcept {
  image.touched = pool_.touched();
  for (std::uint32_t i = 0; i < image.generations.size(); ++i) {
    image.generations[i] =
        (queue_[first_chunk_ + i].next_generation - 1) & ItemKey::kGenerationMask;
  }
  image.free.resize(pool_.list_free(image.free).size());
  image.open.resize(pool_.list_open(image.open).size());
  image.evicted = evicted_;
  for (std::size_t s = 0; s < selection_.size(); ++s) {
    image.memories[s] = selection_[s].memory();
  }
  for (std::uint32_t c = queue_.oldest(); c != storage::kNil; c = queue_[c].newer) {
    const ChunkState& state = queue_[c];
    const auto each = [&](std::span<const std::uint32_t> leaves, std::size_t done) {
      notify_indices([&](auto& index) { index.store(leaves, image, image.items + done); });
    };
    const std::size_t items =
        for_each_item(store_.priorities(c), leaf(c, 0), state.deselected, state.ingested, each);
    image.chunks.push_back({c, state.generation, state.next_generation, state.generation_before,
                            state.restored, state.ingested, state.deselected,
                            static_cast<std::uint32_t>(items), state.steps, state.closed,
                            state.turn});
    image.items += items;
  }
}

bool LockedShard::pin_stored(const ChunkImage& image) noexcept {
  // An evicted chunk has no steps, or has been retired since and filled anew, which gave it another
  // generation.
  if (queue_[image.chunk].generation_of(0) != image.first_generation() ||
      queue_[image.chunk].steps == 0) {
    return false;
  }
  pin(std::span(&image.chunk, 1));
  return true;
}

void LockedShard::restore(const ShardImage& image,
                          std::span<const SelectorSummary> others) noexcept {
  hints_stale_ = true;
  for (std::uint32_t i = 0; i < image.generations.size(); ++i) {
    ChunkState& state = queue_[first_chunk_ + i];
    state.generation = image.generations[i] & ItemKey::kGenerationMask;
    state.next_generation = state.generation + 1;
  }
  std::size_t at = 0;
  for (const ChunkImage& chunk : image.chunks) {
    restore_chunk(chunk, others);
    const auto each = [&](std::span<const std::uint32_t> leaves, std::size_t done) {
      notify_indices([&](auto& index) { index.restore(leaves, image, at + done); });
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        if (image.stored.front()[at + done + i] == kRemoved) {
          remove(place(leaves[i]));
        }
      }
    };
    at += for_each_item(store_.priorities(chunk.chunk), leaf(chunk.chunk, 0), chunk.deselected,
                        chunk.ingested, each);
  }
  for (std::size_t s = 0; s < selection_.size(); ++s) {
    selection_[s].set_memory(image.memories[s]);
  }
  // Chunks are closed only after the weights are restored, because the remover is told of a closed
  // chunk and may ask for its weights then.
  for (const ChunkImage& chunk : image.chunks) {
    if (chunk.closed) {
      ingest_chunk({chunk.chunk, chunk.ingested, /*closed=*/true, chunk.turn}, others);
    }
  }
  evicted_ = image.evicted;
  ingested_ = evicted_ + steps_;
  pool_.restore(image.touched, image.free, image.open);
}

/// Ingests a chunk as if its writer had rung for all its rows, and deselects the steps that had
/// been evicted before the save. The chunk stays open.
void LockedShard::restore_chunk(const ChunkImage& image,
                                std::span<const SelectorSummary> others) noexcept {
  storage::Chunk& shared = store_.chunk(image.chunk);
  // Relaxed: no other thread has the buffer yet.
  shared.bell.published.store(image.ingested, base::Order::Relaxed);
  shared.cursor = image.ingested;
  shared.bell.turn.set(image.turn);
  budget_.skip_turn(image.turn);
  ChunkState& state = queue_[image.chunk];
  state.generation = image.generation;
  state.next_generation = image.next_generation;
  state.generation_before = image.generation_before;
  state.restored = image.restored;
  ingest_chunk({image.chunk, image.ingested, /*closed=*/false, image.turn}, others);
  const float* const priorities = store_.priorities(image.chunk);
  const auto evicted = static_cast<std::size_t>(
      std::count_if(priorities, priorities + image.deselected,
                    [](float priority) { return priority != storage::kNotAStep; }));
  if (evicted != 0) {
    budget_.remove(deselect(image.chunk, evicted));
  }
  state.deselected = image.deselected;
  notify_indices([&](auto& index) { index.changed(image.chunk); });
}

}  // namespace reprise::shard
