#include "buffer/update.hpp"

#include "base/extremes.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>

namespace reprise::buffer {
namespace {

/// Keys that are updated at a time, with one lock per shard; bounds the scratch on the stack.
constexpr std::size_t kBlock = 2048;

/// Scratch of one block. Its elements are written before they are read, so they are not
/// initialised.
struct Block {
  // A defaulted constructor would set the arrays to 0.
  // NOLINTNEXTLINE(modernize-use-equals-default,cppcoreguidelines-pro-type-member-init)
  Block() noexcept {}

  std::array<float, kBlock> weights;
  std::array<std::uint32_t, kBlock> shards;
  std::array<std::uint32_t, kBlock> leaves;
  std::optional<std::array<ItemKey, kBlock>> sorted;
  std::array<float, kBlock> priorities;  ///< With sorted.
};

/// Groups keys and their priorities by shard, stably, so that of two updates of one item the later
/// one wins. Nothing is moved if they are grouped already, as the keys of a batch are.
void group(std::span<const ItemKey>& keys, std::span<const float>& priorities,
           const ShardSet& shards, Block& block) noexcept {
  bool sorted_by_shard = true;
  std::uint32_t last = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    block.shards[i] = shards.index_of_slot(keys[i].slot());
    sorted_by_shard &= block.shards[i] >= last;
    last = block.shards[i];
  }
  if (sorted_by_shard) {
    return;
  }
  std::array<std::uint32_t, kMaxShards + 1> next{};  // The place of each shard's next key.
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ++next[block.shards[i] + 1];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  block.sorted.emplace();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint32_t shard = shards.index_of_slot(keys[i].slot());
    const std::uint32_t to = next[shard]++;
    (*block.sorted)[to] = keys[i];
    block.priorities[to] = priorities[i];
    block.shards[to] = shard;
  }
  keys = std::span(*block.sorted).first(keys.size());
  priorities = std::span(block.priorities).first(keys.size());
}

/// Finite and at least 0: adding 0 clears the sign of -0, and whatever is no number, infinite or
/// negative has larger bits than the largest float.
bool valid(float priority) noexcept {
  return std::bit_cast<std::uint32_t>(priority + 0.0F) <=
         std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max());
}

bool valid(ItemKey key, std::uint32_t tag, std::size_t slots) noexcept {
  return static_cast<int>(key.tag() == tag) & static_cast<int>(key.slot() < slots);
}

/// Throws std::invalid_argument for anything wrong in the arguments, before anything is changed.
void check(std::span<const ItemKey> keys, std::span<const float> priorities,
           const SelectorRule& rule, std::uint32_t tag, std::size_t slots) {
  if (keys.size() != priorities.size()) {
    throw std::invalid_argument("update_priorities: " + std::to_string(keys.size()) + " keys and " +
                                std::to_string(priorities.size()) +
                                " priorities; allowed: equal counts");
  }
  bool good = true;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    good &= valid(priorities[i]);
    good &= valid(keys[i], tag, slots);
  }
  if (good && rule.weighable(base::extreme(priorities, 0.0F, std::greater<>()))) {
    return;
  }
  // Something is wrong: the loops below find what, and throw.
  check_priorities(priorities, rule);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!valid(keys[i], tag, slots)) {
      throw std::invalid_argument("update_priorities: keys[" + std::to_string(i) + "] has tag " +
                                  std::to_string(keys[i].tag()) +
                                  "; allowed: keys of this buffer, tag " + std::to_string(tag));
    }
  }
}

/// Every weight is finite and at least 0 (I4), though the priorities may have been checked with
/// another exponent, or the rule of a user may give anything.
void weigh(const SelectorRule& rule, std::span<const float> priorities,
           std::span<float> weights) noexcept {
  rule.weigh(priorities, weights);
  std::ranges::transform(weights, weights.begin(), [](float weight) {
    return weight > 0.0F ? std::min(weight, std::numeric_limits<float>::max()) : 0.0F;
  });
}

}  // namespace

void check_priorities(std::span<const float> priorities, const SelectorRule& rule) {
  const auto refuse = [&](std::size_t i, const char* allowed) {
    throw std::invalid_argument("update_priorities: priorities[" + std::to_string(i) + "] is " +
                                base::text(priorities[i]) + "; allowed: " + allowed);
  };
  for (std::size_t i = 0; i < priorities.size(); ++i) {
    if (!valid(priorities[i])) {
      refuse(i, "finite, at least 0");
    }
  }
  const auto highest = std::max_element(priorities.begin(), priorities.end());
  if (highest != priorities.end() && !rule.weighable(*highest)) {
    refuse(static_cast<std::size_t>(highest - priorities.begin()),
           "a priority whose weight (priority + epsilon)^alpha is finite");
  }
}

UpdateResult update(BufferCore& core, std::span<const ItemKey> keys,
                    std::span<const float> priorities, std::size_t selector) {
  core.life().check();
  ShardSet& shards = core.shards();
  const SelectorRule& rule = core.selectors().at(selector);
  const std::uint64_t alphas_set = core.selectors().alphas_set();
  check(keys, priorities, rule, core.tag(), core.store().chunks() * core.store().chunk_rows());
  shards.ingest_pending();

  Block block;
  std::size_t applied = 0;
  for (std::size_t done = 0; done < keys.size(); done += kBlock) {
    const std::size_t count = std::min(keys.size() - done, kBlock);
    std::span<const ItemKey> grouped = keys.subspan(done, count);
    std::span<const float> raw = priorities.subspan(done, count);
    group(grouped, raw, shards, block);
    weigh(rule, raw, std::span(block.weights).first(count));
    for (std::size_t begin = 0; begin < count;) {
      const std::uint32_t s = block.shards[begin];
      const auto end = static_cast<std::size_t>(
          std::upper_bound(block.shards.begin() + begin, block.shards.begin() + count, s) -
          block.shards.begin());
      const ShardSet::One shard(shards, s);
      const std::span<float> weights = std::span(block.weights).subspan(begin, end - begin);
      if (core.selectors().alphas_set() != alphas_set) {
        weigh(rule, raw.subspan(begin, end - begin), weights);
      }
      applied += shard->update(selector, grouped.subspan(begin, end - begin), weights,
                               std::span(block.leaves).first(end - begin));
      begin = end;
    }
  }
  const UpdateResult result{applied, keys.size() - applied};
  core.counters.applied_updates.fetch_add(result.applied, std::memory_order_relaxed);
  core.counters.stale_updates.fetch_add(result.stale, std::memory_order_relaxed);
  return result;
}

}  // namespace reprise::buffer
