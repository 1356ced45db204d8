#pragma once

#include "base/cache_line.hpp"

#include <atomic>
#include <cstdint>

namespace reprise::buffer {

/// Statistics of a buffer since it was made; a load restores them. They have a cache line of their
/// own, because every commit reads the members around them. Any thread. Relaxed: no other data
/// depends on them, except for `dropped_steps`.
struct alignas(base::kCacheLine) Counters {
  std::atomic<std::uint64_t> sampled_items{0};
  std::atomic<std::uint64_t> sampled_batches{0};
  std::atomic<std::uint64_t> closed_chunks{0};
  std::atomic<std::uint64_t> applied_updates{0};
  std::atomic<std::uint64_t> stale_updates{0};
  /// How many blocks of episode ids were handed out.
  std::atomic<std::uint64_t> episode_blocks{0};
  /// Steps that a destroyed writer dropped because it found no chunk for their items; they count as
  /// evicted.
  /// D1: added with release; partner: the acquire in BufferCore::stats, which then sees the commits
  /// of these steps.
  std::atomic<std::uint64_t> dropped_steps{0};
};

}  // namespace reprise::buffer
