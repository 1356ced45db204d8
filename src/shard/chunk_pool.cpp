#include "shard/chunk_pool.hpp"

namespace reprise::shard {

using storage::kNil;

std::uint32_t ChunkPool::take_recycled() noexcept {
  const std::uint32_t chunk = free_.pop(Links{store_});
  if (chunk != kNil) {
    store_.forget(chunk);
  }
  return chunk;
}

std::uint32_t ChunkPool::take_fresh(int& disk_error) noexcept {
  std::uint32_t chunk = roomless_.pop(Links{store_});
  if (chunk == kNil) {
    const std::uint32_t next = fresh_.take(extent_.chunks);
    if (next == kNil) {
      return kNil;
    }
    chunk = extent_.first_chunk + next;
  }
  const bool roomy = chunk - extent_.first_chunk < extent_.set_aside;
  if (const int error = roomy ? 0 : store_.set_aside(chunk, 1); error != 0) {
    disk_error = error;
    roomless_.push(chunk, Links{store_});
    return kNil;
  }
  return chunk;
}

void ChunkPool::reclaim(std::uint32_t chunk) noexcept {
  store_.chunk(chunk).pins.reset();
  free_.push(chunk, Links{store_});
}

void ChunkPool::restore(std::uint32_t touched, std::span<const std::uint32_t> free,
                        std::span<const std::uint32_t> open) noexcept {
  fresh_.restore(touched);
  for (std::size_t i = free.size(); i-- > 0;) {
    free_.push(free[i], Links{store_});
  }
  for (std::size_t i = open.size(); i-- > 0;) {
    open_.push(open[i], Links{store_});
  }
}

}  // namespace reprise::shard
