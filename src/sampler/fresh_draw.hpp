#pragma once

#include "buffer/buffer_core.hpp"
#include "sampler/run.hpp"

#include <cstddef>
#include <vector>

namespace reprise::sampler {

/// Draws items that nobody has drawn before, from the queues of the shards
/// (`SamplerOptions::fresh`). One thread at a time.
class FreshDraw {
 public:
  /// With a share above 0 the buffer tracks fresh items from now on. Throws std::invalid_argument
  /// for a share that is not allowed.
  FreshDraw(buffer::BufferCore& core, std::size_t selector, float share);

  [[nodiscard]] bool on() const noexcept { return share_ > 0.0; }
  /// Draws into the first places of a batch of n, and pins each item's chunk. Returns how many were
  /// drawn: the share of n, or as many as there are. `runs` has room for one of each shard.
  std::size_t draw(const shard::Slots& batch, std::vector<Run>& runs) noexcept;

 private:
  buffer::BufferCore& core_;
  const std::size_t selector_;
  const double share_;
  std::size_t first_ = 0;            ///< The shard that is asked first, another one each time.
  std::vector<std::size_t> counts_;  ///< Fresh items of each shard.
};

}  // namespace reprise::sampler
