#pragma once

#include "base/random.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::select {

/// Places n draws over the whole buffer: `fractions` receives, grouped by shard, positions in [0,
/// 1) of that shard's weight; `counts[s]` of them belong to shard s.
///
/// `shares` are the shards' parts of the total weight, and sum to 1; a shard with share 0 gets no
/// draw. Stratified draws take one uniform position from each n-th of the total; independent draws
/// are uniform over all of it. `scratch` has room for n.
void allot(std::span<const double> shares, bool stratified, base::Random& random,
           std::span<double> scratch, std::span<double> fractions,
           std::span<std::size_t> counts) noexcept;

}  // namespace reprise::select
