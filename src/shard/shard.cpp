#include "shard/shard.hpp"

namespace reprise::shard {

Shard::Shard(storage::ChunkStore& store, Budget& budget,
             std::span<const std::unique_ptr<SelectorRule>> rules, const Remover& remover,
             const Extent& extent, std::uint32_t tag, const Extras& extras)
    : store_(store),
      chunks_(store, extent),
      hints_(rules.size()),
      locked_({store, budget, chunks_, bells_, hints_}, rules, remover, extent, tag, extras) {
  const base::MutexLock lock(mutex);
  locked_.publish_hints();
}

bool Shard::ring(std::uint32_t chunk, bool closing) noexcept {
  return bells_.ring(
      chunk, closing ? storage::kRung | storage::kClosed : storage::kRung,
      [this](std::uint32_t c) -> auto& { return store_.chunk(c).bell; });
}

void Shard::unpin(std::span<const std::uint32_t> chunks) noexcept {
  // The lock costs less than an atomic operation per chunk, so it is used if it is free; pins never
  // wait for it.
  if (mutex.try_lock()) {
    for (const std::uint32_t chunk : chunks) {
      if (store_.chunk(chunk).pins.unpin_locked()) {
        chunks_.reclaim(chunk);
      }
    }
    mutex.unlock();
    return;
  }
  for (const std::uint32_t chunk : chunks) {
    if (store_.chunk(chunk).pins.unpin()) {
      chunks_.reclaim(chunk);
    }
  }
}

}  // namespace reprise::shard
