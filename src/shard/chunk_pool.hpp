#pragma once

#include "storage/chunk_store.hpp"
#include "storage/free_list.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::shard {

/// The part of a buffer that belongs to one shard.
struct Extent {
  std::uint32_t first_chunk = 0;
  std::uint32_t chunks = 0;
  std::size_t share = 0;        ///< Its part of the capacity, in steps.
  std::uint32_t set_aside = 0;  ///< How many chunks, from the first, already have disk space.
};

/// The chunks of a shard from which writers take their next one: free, fresh, and left open. Any
/// thread, lock-free.
class ChunkPool {
 public:
  ChunkPool(storage::ChunkStore& store, const Extent& extent) noexcept
      : store_(store), extent_(extent) {}

  /// Takes a chunk that a destroyed writer left open; kNil if there is none.
  std::uint32_t take_open() noexcept { return open_.pop(Links{store_}); }
  /// Takes a chunk that was used and freed; kNil if there is none.
  std::uint32_t take_recycled() noexcept {
    const std::uint32_t chunk = free_.pop(Links{store_});
    if (chunk != storage::kNil) {
      store_.wont_need(chunk);
    }
    return chunk;
  }
  /// Takes a chunk that was never used; kNil if there is none, or if the disk has no room for it.
  /// In the second case `disk_error` is set to an errno value.
  std::uint32_t take_fresh(int& disk_error) noexcept {
    std::uint32_t chunk = without_disk_space_.pop(Links{store_});
    if (chunk == storage::kNil) {
      const std::uint32_t next = fresh_.take(extent_.chunks);
      if (next == storage::kNil) {
        return storage::kNil;
      }
      chunk = extent_.first_chunk + next;
    }
    const bool has_disk_space = chunk - extent_.first_chunk < extent_.set_aside;
    if (const int error = has_disk_space ? 0 : store_.set_aside(chunk, 1); error != 0) {
      disk_error = error;
      without_disk_space_.push(chunk, Links{store_});
      return storage::kNil;
    }
    return chunk;
  }

  /// Leaves a chunk open for the next writer.
  void leave_open(std::uint32_t chunk) noexcept { open_.push(chunk, Links{store_}); }
  /// Frees a retired chunk whose last pin was given back.
  void reclaim(std::uint32_t chunk) noexcept {
    store_.chunk(chunk).pins.reset();
    free_.push(chunk, Links{store_});
  }

  /// How many chunks were ever used: those with the lowest numbers. Relaxed: a count for
  /// statistics, and a hint of how many chunks a caller has to look at.
  [[nodiscard]] std::uint32_t touched() const noexcept { return fresh_.taken(); }

  // Checkpoints.

  /// List the free or the open chunks, the next one to be taken first, as many as `chunks` has room
  /// for. The list is empty if another thread takes a chunk meanwhile.
  [[nodiscard]] std::span<std::uint32_t> list_free(std::span<std::uint32_t> chunks) const noexcept {
    return free_.list(chunks, Links{store_});
  }
  [[nodiscard]] std::span<std::uint32_t> list_open(std::span<std::uint32_t> chunks) const noexcept {
    return open_.list(chunks, Links{store_});
  }
  /// Fills the lists, before any other thread has the buffer.
  void restore(std::uint32_t touched, std::span<const std::uint32_t> free,
               std::span<const std::uint32_t> open) noexcept {
    fresh_.restore(touched);
    for (std::size_t i = free.size(); i-- > 0;) {
      free_.push(free[i], Links{store_});
    }
    for (std::size_t i = open.size(); i-- > 0;) {
      open_.push(open[i], Links{store_});
    }
  }

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
  /// Chunks that `fresh_` has handed out and for which the disk had no room; they were never used.
  storage::FreeList<base::StdSync> without_disk_space_;
};

}  // namespace reprise::shard
