#pragma once

#include "buffer/buffer_core.hpp"

namespace reprise::buffer {

/// Holds every shard's lock, taken in order. Nobody else ever holds two.
///
/// Hints of all shards are published before any lock is given back: whoever has one of the locks
/// afterwards finds in every hint what was done here, or something later.
class AllShards {
 public:
  explicit AllShards(BufferCore& core) noexcept REPRISE_UNCHECKED : core_(core) {
    for (std::size_t s = 0; s < core_.shard_count(); ++s) {
      shard::Shard& shard = core_.shard(s);
      // Relaxed: a hint.
      shard.samplers_waiting.fetch_add(1, std::memory_order_relaxed);
      shard.mutex.lock();
      shard.samplers_waiting.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  ~AllShards() REPRISE_UNCHECKED {
    for (std::size_t s = 0; s < core_.shard_count(); ++s) {
      core_.shard(s).publish_hints();
    }
    for (std::size_t s = 0; s < core_.shard_count(); ++s) {
      core_.serve_writers(core_.shard(s));
      core_.shard(s).mutex.unlock();
    }
  }
  AllShards(const AllShards&) = delete;
  AllShards& operator=(const AllShards&) = delete;

 private:
  BufferCore& core_;
};

}  // namespace reprise::buffer
