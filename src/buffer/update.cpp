#include "buffer/update.hpp"

#include "base/extremes.hpp"
#include "base/normal.hpp"
#include "base/text.hpp"
#include "buffer/keys_by_shard.hpp"
#include "select/weight_rule.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>

namespace reprise::buffer {
namespace {

/// How many keys are updated under one lock per shard, which bounds the scratch on the stack.
constexpr std::size_t kBlock = 2048;
/// How many steps of an episode are looked up under one lock per shard.
constexpr std::size_t kEpisodeBlock = 512;

/// Scratch of one block of keys. Its elements are written before they are read, so they are not
/// initialised.
struct Block {
  // A defaulted constructor would set the arrays to 0.
  // NOLINTNEXTLINE(modernize-use-equals-default,cppcoreguidelines-pro-type-member-init)
  Block() noexcept {}

  std::array<float, kBlock> weights;
  // Where each shard's keys begin and end; both 0 if there are none.
  std::array<std::uint32_t, kMaxShards> begins;
  std::array<std::uint32_t, kMaxShards> ends;
  std::array<std::uint32_t, kBlock> leaves;
  std::optional<std::array<ItemKey, kBlock>> sorted;
  std::array<float, kBlock> priorities;  ///< The priorities of `sorted`.
};

/// Groups keys and their priorities by shard, stably, so that of two updates of one item the later
/// one wins. Nothing is moved if they are grouped already, as the keys of a batch are.
void group(std::span<const ItemKey>& keys, std::span<const float>& priorities,
           const ShardSet& shards, Block& block) noexcept {
  std::fill_n(block.begins.begin(), shards.size(), 0);
  std::fill_n(block.ends.begin(), shards.size(), 0);
  bool grouped = true;
  std::uint32_t last = kMaxShards;
  for (std::uint32_t i = 0; i < keys.size() && grouped; ++i) {
    const std::uint32_t shard = shards.index_of_slot(keys[i].slot());
    if (shard != last) {
      grouped &= block.ends[shard] == 0;
      block.begins[shard] = i;
    }
    block.ends[shard] = i + 1;
    last = shard;
  }
  if (grouped) {
    return;
  }
  std::fill_n(block.ends.begin(), shards.size(), 0);
  for (const ItemKey key : keys) {
    ++block.ends[shards.index_of_slot(key.slot())];
  }
  std::exclusive_scan(block.ends.begin(), block.ends.begin() + shards.size(), block.begins.begin(),
                      0U);
  std::copy_n(block.begins.begin(), shards.size(), block.ends.begin());
  block.sorted.emplace();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint32_t to = block.ends[shards.index_of_slot(keys[i].slot())]++;
    (*block.sorted)[to] = keys[i];
    block.priorities[to] = priorities[i];
  }
  keys = std::span(*block.sorted).first(keys.size());
  priorities = std::span(block.priorities).first(keys.size());
}

bool valid(float priority) noexcept {
  return base::finite_and_not_negative(priority);
}

/// Whether a key may be of the buffer. It has no branch, because loops over keys call it.
bool valid(ItemKey key, std::uint32_t tag, std::size_t slots) noexcept {
  return static_cast<int>(key.tag() == tag) & static_cast<int>(key.slot() < slots);
}

std::size_t slots(BufferCore& core) noexcept {
  return core.store().chunks() * core.store().chunk_rows();
}

void refuse_foreign(const char* call, std::span<const ItemKey> keys, std::uint32_t tag,
                    std::size_t slots) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    base::require(valid(keys[i], tag, slots), base::Call{call}, "keys[", i, "] has tag ",
                  keys[i].tag(), "; allowed: keys of this buffer, tag ", tag);
  }
}

/// Throws std::invalid_argument for anything wrong in the arguments, before anything is changed.
void check(std::span<const ItemKey> keys, std::span<const float> priorities,
           const SelectorRule& rule, std::uint32_t tag, std::size_t slots) {
  base::require(keys.size() == priorities.size(), base::Call{"update_priorities"}, keys.size(),
                " keys and ", priorities.size(), " priorities; allowed: equal counts");
  bool good = true;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    good &= valid(priorities[i]);
    good &= valid(keys[i], tag, slots);
  }
  if (good && rule.weighable(base::extreme(priorities, 0.0F, std::greater<>()))) {
    return;
  }
  // Some priority or key is wrong; the loops of these calls find it, and throw.
  check_priorities("update_priorities", priorities, rule);
  refuse_foreign("update_priorities", keys, tag, slots);
}

[[noreturn]] void refuse_selector(const char* call, std::size_t selector) {
  base::refuse(
      base::Call{call}, "selector is ", selector,
      ", whose weights it does not change; allowed: Proportional, LossAdjusted, Mixture, or "
      "one of your own that has it");
}

}  // namespace

void require_episode_index(const BufferCore& core) {
  core.life().check_not_forked();
  if (!core.options().episode_index) {
    base::refuse<std::logic_error>("finding items by episode needs ", base::OptionsOf{"Options"},
                                   "episode_index, which is off: make the buffer with it");
  }
}

void check_keys(const char* call, BufferCore& core, std::span<const ItemKey> keys) {
  refuse_foreign(call, keys, core.tag(), slots(core));
}

bool weighable(std::span<const float> priorities, const SelectorRule& rule) {
  bool good = true;
  for (const float priority : priorities) {
    good &= valid(priority);
  }
  return good && rule.weighable(base::extreme(priorities, 0.0F, std::greater<>()));
}

void check_priorities(const char* call, std::span<const float> priorities, const SelectorRule& rule,
                      std::size_t first) {
  if (weighable(priorities, rule)) {
    return;
  }
  // Some priority is wrong; the loop finds it, and throws.
  for (std::size_t i = 0; i < priorities.size(); ++i) {
    const float priority = priorities[i];
    base::require(valid(priority), base::Call{call}, "priorities[", first + i, "] is ", priority,
                  "; allowed: finite, at least 0");
    base::require(
        rule.weighable(priority), base::Call{call}, "priorities[", first + i, "] is ", priority,
        "; allowed: a priority with a finite weight of at least 0, which of Proportional is "
        "(priority + epsilon)^alpha");
  }
}

UpdateResult update(BufferCore& core, std::span<const ItemKey> keys,
                    std::span<const float> priorities, std::size_t selector) {
  core.life().check_not_forked();
  check(keys, priorities, core.selectors().at(selector), core.tag(), slots(core));
  return update_checked(core, keys, priorities, selector);
}

UpdateResult update_checked(BufferCore& core, std::span<const ItemKey> keys,
                            std::span<const float> priorities, std::size_t selector) {
  ShardSet& shards = core.shards();
  const SelectorRule& rule = core.selectors().at(selector);
  const std::uint64_t alphas_set = core.selectors().alphas_set();
  shards.ingest_pending();

  Block block;
  std::size_t applied = 0;
  for (std::size_t done = 0; done < keys.size(); done += kBlock) {
    const std::size_t count = std::min(keys.size() - done, kBlock);
    std::span<const ItemKey> grouped = keys.subspan(done, count);
    std::span<const float> raw = priorities.subspan(done, count);
    group(grouped, raw, shards, block);
    select::weigh_all(rule, raw, std::span(block.weights).first(count));
    const auto has_keys = [&](std::size_t s) { return block.ends[s] > block.begins[s]; };
    shards.visit(has_keys, [&](std::size_t s, shard::LockedShard& shard) {
      const std::uint32_t begin = block.begins[s];
      const std::uint32_t size = block.ends[s] - begin;
      const std::span<float> weights = std::span(block.weights).subspan(begin, size);
      // An exponent that was set since the weights were computed stays while the lock is held.
      if (core.selectors().alphas_set() != alphas_set) {
        select::weigh_all(rule, raw.subspan(begin, size), weights);
      }
      applied += shard.update(selector, grouped.subspan(begin, size), weights,
                              std::span(block.leaves).first(size));
    });
  }
  const UpdateResult result{applied, keys.size() - applied};
  core.counters.applied_updates.fetch_add(result.applied, std::memory_order_relaxed);
  core.counters.stale_updates.fetch_add(result.stale, std::memory_order_relaxed);
  return result;
}

std::optional<ItemKey> find(BufferCore& core, std::uint64_t episode, std::uint64_t position) {
  require_episode_index(core);
  core.shards().drain();
  ShardSet& shards = core.shards();
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const ShardSet::Lock shard(shards, s);
    if (const std::optional<ItemKey> key = shard->find(episode, position)) {
      return key;
    }
  }
  return std::nullopt;
}

UpdateResult update_episode(BufferCore& core, std::uint64_t episode, std::uint64_t position,
                            std::span<const float> priorities, std::size_t selector) {
  require_episode_index(core);
  check_priorities("update_priorities", priorities, core.selectors().at(selector));
  core.shards().drain();
  ShardSet& shards = core.shards();
  UpdateResult result;
  // Both arrays are written before they are read, so they are not initialised.
  std::array<ItemKey, kEpisodeBlock> live_keys;
  std::array<float, kEpisodeBlock> live_values;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t done = 0; done < priorities.size(); done += kEpisodeBlock) {
    const std::size_t count = std::min(kEpisodeBlock, priorities.size() - done);
    std::size_t live = 0;
    for (std::size_t s = 0; s < shards.size(); ++s) {
      const ShardSet::Lock shard(shards, s);
      for_each_step(*shard, episode, position, done, done + count, [&](std::size_t i, ItemKey key) {
        if (live < count) {  // A damaged checkpoint may say that two shards have a step.
          live_keys[live] = key;
          live_values[live++] = priorities[i];
        }
      });
    }
    const auto [applied, stale] = update(core, std::span(live_keys).first(live),
                                         std::span(live_values).first(live), selector);
    result.applied += applied;
    const std::size_t missing = count - live;
    // Relaxed: a statistic.
    core.counters.stale_updates.fetch_add(missing, std::memory_order_relaxed);
    result.stale += stale + missing;
  }
  return result;
}

void set_alpha(BufferCore& core, float alpha, std::size_t selector) {
  core.life().check_not_forked();
  const SelectorRule& rule = core.selectors().at(selector);
  if (!rule.alpha()) {
    refuse_selector("set_alpha", selector);
  }
  rule.check_alpha(alpha);
  const ShardSet::LockAll all(core.shards());
  const float present = buffer::alpha(core, selector);
  base::require(present != 0.0F, base::Call{"set_alpha"}, "alpha is ", alpha,
                ", but the present alpha is 0, whose weights say nothing of priorities; allowed: a "
                "change from an alpha above 0. Make the buffer with a small one, such as 0.01, if "
                "it is to rise later");
  bool set = core.selectors().set_alpha(alpha, selector);
  for (std::size_t s = 0; set && s < all.size(); ++s) {
    set = all[s].selector(selector).set_alpha(alpha);
  }
  if (!set) {
    // No shard has changed, because the shard selectors of a rule answer alike.
    static_cast<void>(core.selectors().set_alpha(present, selector));
    base::refuse(base::Call{"set_alpha"}, "alpha is ", alpha, ", which selector ", selector,
                 " did not take; ",
                 "allowed: a selector whose rule and shard selectors both set an alpha, which its "
                 "rule then has");
  }
  core.counters.changed();
}

float alpha(const BufferCore& core, std::size_t selector) {
  const std::optional<float> alpha = core.selectors().at(selector).alpha();
  if (!alpha) {
    refuse_selector("alpha", selector);
  }
  return *alpha;
}

void decay(BufferCore& core, float factor, std::size_t selector) {
  core.life().check_not_forked();
  static_cast<void>(core.selectors().at(selector));
  base::require(factor > 0.0F && factor <= 1.0F, base::Call{"decay"}, "factor is ", factor,
                "; allowed: above 0, at most 1");
  core.shards().drain();  // Steps that were committed before the call have to decay too.
  const ShardSet::LockAll all(core.shards());
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (!all[s].selector(selector).decay(factor)) {
      refuse_selector("decay", selector);
    }
  }
  core.counters.changed();
}

void reset(BufferCore& core, float priority, std::size_t selector) {
  core.life().check_not_forked();
  const SelectorRule& rule = core.selectors().at(selector);
  base::require(weighable({&priority, 1}, rule), base::Call{"reset"}, "priority is ", priority,
                "; allowed: finite, at least 0, with a finite weight");
  core.shards().drain();
  const ShardSet::LockAll all(core.shards());  // The locks keep the exponent as it is.
  float weight = 0.0F;
  select::weigh_all(rule, {&priority, 1}, {&weight, 1});
  for (std::size_t s = 0; s < all.size(); ++s) {
    all[s].update_all(selector, weight);
  }
  core.counters.changed();
}

std::size_t remove(BufferCore& core, std::span<const ItemKey> keys) {
  core.life().check_not_forked();
  check_keys("remove", core, keys);
  std::size_t removed = 0;
  for (std::size_t done = 0; done < keys.size(); done += kBlock) {
    const std::span<const ItemKey> part = keys.subspan(done, std::min(kBlock, keys.size() - done));
    // Both arrays are written before they are read, so they are not initialised.
    std::array<std::uint32_t, kBlock> order;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::array<ItemKey, kBlock> keys_of_shard;
    for_each_shard(part, core.shards(), order,
                   [&](std::size_t s, std::span<const std::uint32_t> indices) {
                     std::ranges::transform(indices, keys_of_shard.begin(),
                                            [part](std::uint32_t i) { return part[i]; });
                     const ShardSet::Lock shard(core.shards(), s);
                     removed += shard->remove(std::span(keys_of_shard).first(indices.size()));
                   });
  }
  core.room_event.wake_registered();  // E1: items that have left make room in a queue.
  return removed;
}

std::size_t remove_episode(BufferCore& core, std::uint64_t episode) {
  require_episode_index(core);
  core.shards().drain();
  std::size_t removed = 0;
  for (std::size_t s = 0; s < core.shards().size(); ++s) {
    removed += ShardSet::Lock(core.shards(), s)->remove_episode(episode);
  }
  core.room_event.wake_registered();  // E1
  return removed;
}

void clear(BufferCore& core) {
  core.life().check_not_forked();
  core.shards().drain();
  {
    const ShardSet::LockAll all(core.shards());
    for (std::size_t s = 0; s < all.size(); ++s) {
      all[s].clear();
    }
  }
  core.room_event.wake_registered();  // E1
}

}  // namespace reprise::buffer
