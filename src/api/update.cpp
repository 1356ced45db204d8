#include "api/buffer_core.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

namespace reprise::detail {
namespace {

/// Keys handled under one lock at a time; their scratch is on the stack.
constexpr std::size_t kBlock = 512;

/// std::invalid_argument for whatever would make the call half done.
void check(std::span<const ItemKey> keys, std::span<const float> priorities,
           const select::Rule& rule, std::uint32_t tag, std::size_t slots) {
  if (keys.size() != priorities.size()) {
    throw std::invalid_argument("update_priorities: " + std::to_string(keys.size()) + " keys and " +
                                std::to_string(priorities.size()) +
                                " priorities; allowed: equal counts");
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!(std::isfinite(priorities[i]) && priorities[i] >= 0.0F)) {
      throw std::invalid_argument("update_priorities: priorities[" + std::to_string(i) + "] is " +
                                  base::text(priorities[i]) + "; allowed: finite, at least 0");
    }
    if (keys[i].tag() != tag || keys[i].slot() >= slots) {
      throw std::invalid_argument("update_priorities: keys[" + std::to_string(i) + "] has tag " +
                                  std::to_string(keys[i].tag()) +
                                  "; allowed: keys of this buffer, tag " + std::to_string(tag));
    }
  }
  const auto highest = std::max_element(priorities.begin(), priorities.end());
  if (highest != priorities.end() && !rule.weighable(*highest)) {
    throw std::invalid_argument(
        "update_priorities: priorities[" + std::to_string(highest - priorities.begin()) + "] is " +
        base::text(*highest) +
        "; allowed: a priority whose weight (priority + epsilon)^alpha is finite");
  }
}

}  // namespace

UpdateResult BufferCore::update(std::span<const ItemKey> keys, std::span<const float> priorities,
                                std::size_t selector) {
  if (selector >= rules_.size()) {
    throw std::invalid_argument("selector is " + std::to_string(selector) + "; allowed: 0 to " +
                                std::to_string(rules_.size() - 1));
  }
  const select::Rule& rule = rules_[selector];
  check(keys, priorities, rule, tag(), store_.chunks() * store_.chunk_rows());
  ingest_pending();

  std::array<ItemKey, kBlock> block;
  // Written before they are read, as far as a block goes.
  std::array<float, kBlock> weights;         // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::array<std::uint32_t, kBlock> leaves;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::size_t applied = 0;
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    // A shard's slots are consecutive: one subtraction instead of two divisions for each key.
    const std::uint32_t slots_per_shard = plan_.chunks_per_shard * plan_.chunk_rows;
    const std::uint32_t first_slot = static_cast<std::uint32_t>(s) * slots_per_shard;
    std::size_t next = 0;
    while (next < keys.size()) {
      std::size_t count = 0;
      for (; next < keys.size() && count < kBlock; ++next) {
        if (keys[next].slot() - first_slot < slots_per_shard) {
          block[count] = keys[next];
          weights[count] = priorities[next];
          ++count;
        }
      }
      if (count == 0) {
        continue;
      }
      const std::span<float> block_weights = std::span(weights).first(count);
      rule.weigh(block_weights, block_weights);
      shard::Shard& shard = *shards_[s];
      const shard::SamplerLock lock(shard);
      applied += shard.update(selector, std::span(block).first(count), block_weights,
                              std::span(leaves).first(count));
      serve_writers(shard);
    }
  }
  const UpdateResult result{applied, keys.size() - applied};
  applied_updates.fetch_add(result.applied, std::memory_order_relaxed);
  stale_updates.fetch_add(result.stale, std::memory_order_relaxed);
  return result;
}

}  // namespace reprise::detail
