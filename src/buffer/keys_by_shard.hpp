#pragma once

#include <reprise/item.hpp>

#include "buffer/plan.hpp"
#include "buffer/shard_set.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace reprise::buffer {

/// Calls each(shard, indices) for every shard that has some of the keys; `indices` are the indices
/// of its keys, ascending. `order` is scratch for as many indices as there are keys.
template <class Each>
void for_each_shard(std::span<const ItemKey> keys, const ShardSet& shards,
                    std::span<std::uint32_t> order, Each each) {
  // ends[s]: at first where the indices of shard s begin, after the second loop where they end.
  std::array<std::uint32_t, kMaxShards + 1> ends{};
  for (const ItemKey key : keys) {
    ++ends[shards.index_of_slot(key.slot()) + 1];
  }
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  for (std::uint32_t i = 0; i < keys.size(); ++i) {
    order[ends[shards.index_of_slot(keys[i].slot())]++] = i;
  }
  std::uint32_t begin = 0;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    if (ends[s] != begin) {
      each(s, std::span<const std::uint32_t>(order).subspan(begin, ends[s] - begin));
    }
    begin = ends[s];
  }
}

}  // namespace reprise::buffer
