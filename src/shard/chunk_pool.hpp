#pragma once

#include "storage/chunk_store.hpp"
#include "storage/free_list.hpp"
#include "storage/fresh_chunks.hpp"

#include <cstdint>
#include <span>

namespace reprise::shard {

/// What part of the buffer a shard has.
struct Extent {
  std::uint32_t first_chunk = 0;
  std::uint32_t chunks = 0;
  std::size_t share = 0;        ///< Steps of the capacity.
  std::uint32_t set_aside = 0;  ///< Chunks from the first that have room on the disk already.
};

/// The chunks of a shard that no writer fills and no item occupies. Any thread, lock-free.
class ChunkPool {
 public:
  ChunkPool(storage::ChunkStore& store, const Extent& extent) noexcept
      : store_(store), extent_(extent) {}

  /// A chunk that a destroyed writer left open; kNil if there is none.
  std::uint32_t take_open() noexcept { return open_.pop(Links{store_}); }
  /// A chunk used before and reclaimed; kNil if there is none.
  std::uint32_t take_recycled() noexcept;
  /// A chunk never used; kNil if there is none, or no room on the disk for it: then `disk_error` is
  /// set to an errno value.
  std::uint32_t take_fresh(int& disk_error) noexcept;

  /// Leaves a chunk open for the next writer.
  void hand_over(std::uint32_t chunk) noexcept { open_.push(chunk, Links{store_}); }
  /// A retired chunk that nobody pins any more.
  void reclaim(std::uint32_t chunk) noexcept;

  /// Chunks ever used: the first so many. Relaxed: a count for statistics and guidance.
  [[nodiscard]] std::uint32_t touched() const noexcept { return fresh_.taken(); }

  // Checkpoints.

  /// Free and open chunks, the next to be taken first; empty if one is taken meanwhile.
  [[nodiscard]] std::span<std::uint32_t> list_free(std::span<std::uint32_t> into) const noexcept {
    return free_.list(into, Links{store_});
  }
  [[nodiscard]] std::span<std::uint32_t> list_open(std::span<std::uint32_t> into) const noexcept {
    return open_.list(into, Links{store_});
  }
  /// Before any other thread has the buffer.
  void restore(std::uint32_t touched, std::span<const std::uint32_t> free,
               std::span<const std::uint32_t> open) noexcept;

 private:
  struct Links {
    storage::ChunkStore& store;
    auto& operator()(std::uint32_t chunk) const noexcept { return store.chunk(chunk).link; }
  };

  storage::ChunkStore& store_;
  const Extent extent_;
  storage::FreeList<base::StdSync> free_;
  storage::FreeList<base::StdSync> open_;
  storage::FreshChunks<base::StdSync> fresh_;
  /// Handed out by `fresh_` when there was no room on the disk, and never used.
  storage::FreeList<base::StdSync> roomless_;
};

}  // namespace reprise::shard
