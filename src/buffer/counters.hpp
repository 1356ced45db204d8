#pragma once

#include "base/cache_line.hpp"

#include <atomic>
#include <cstdint>

namespace reprise::buffer {

/// Statistics of a buffer since it was made, restored by checkpoints. On a line of their own,
/// because every commit reads what is around them. Any thread. Relaxed: they guard nothing.
struct alignas(base::kCacheLine) Counters {
  std::atomic<std::uint64_t> sampled_items{0};
  std::atomic<std::uint64_t> sampled_batches{0};
  std::atomic<std::uint64_t> closed_chunks{0};
  std::atomic<std::uint64_t> applied_updates{0};
  std::atomic<std::uint64_t> stale_updates{0};
  /// Blocks of episode ids handed out.
  std::atomic<std::uint64_t> episode_blocks{0};
  /// Steps of writers destroyed while no chunk could be had for their open items: evicted unseen.
  /// D1: added with release; partner: stats, which thereby sees their commits.
  std::atomic<std::uint64_t> dropped_steps{0};
};

}  // namespace reprise::buffer
