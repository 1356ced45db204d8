#include "buffer/priorities.hpp"

#include "base/normal.hpp"
#include "base/text.hpp"
#include "buffer/keys_by_shard.hpp"
#include "buffer/update.hpp"
#include "select/weight_rule.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace reprise::buffer {
namespace {

/// How many keys are looked up under one lock per shard, which bounds the scratch on the stack.
constexpr std::size_t kKeysPerBlock = 2048;

/// Replaces each weight by the smallest priority that has this weight, or the nearest larger one; a
/// NaN stays. Weights do not fall while priorities rise, and floats of at least 0 rise with their
/// bits, so halving the range of bits finds that priority, whatever the rule.
void unweigh(const SelectorRule& rule, std::span<float> weights) noexcept {
  constexpr auto kMaxBits = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max());
  // Bounds of the bits of each priority. Each array is written before it is read.
  std::array<std::uint32_t, kKeysPerBlock> low;   // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::array<std::uint32_t, kKeysPerBlock> high;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::array<float, kKeysPerBlock> tried;         // NOLINT(cppcoreguidelines-pro-type-member-init)
  const std::span<float> weighed = std::span(tried).first(weights.size());
  std::fill_n(low.begin(), weights.size(), 0U);
  std::fill_n(high.begin(), weights.size(), kMaxBits);
  for (auto bits = kMaxBits; bits != 0; bits >>= 1U) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      tried[i] = std::bit_cast<float>(low[i] + (high[i] - low[i]) / 2);
    }
    select::weigh_all(rule, weighed, weighed);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::uint32_t middle = low[i] + (high[i] - low[i]) / 2;
      if (weighed[i] >= weights[i]) {
        high[i] = middle;
      } else {
        low[i] = middle + 1;
      }
    }
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] =
        std::isnan(weights[i]) ? weights[i] : base::normal_or_0(std::bit_cast<float>(high[i]));
  }
}

}  // namespace

std::size_t priorities(BufferCore& core, std::span<const ItemKey> keys, std::span<float> priorities,
                       std::size_t selector) {
  core.life().check_not_forked();
  const SelectorRule& rule = core.selectors().at(selector);
  base::require(keys.size() == priorities.size(), base::Call{"priorities"}, keys.size(),
                " keys and room for ", priorities.size(), " priorities; allowed: equal counts");
  check_keys("priorities", core, keys);
  std::array<std::uint32_t, kKeysPerBlock> order;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t done = 0; done < keys.size(); done += kKeysPerBlock) {
    const std::span<const ItemKey> part =
        keys.subspan(done, std::min(kKeysPerBlock, keys.size() - done));
    const std::span<float> weights = priorities.subspan(done, part.size());
    std::uint64_t alphas_set = 0;
    const auto alpha_changed = [&] {
      // Locked, because the count rises with all locks held, after the exponent has changed.
      const ShardSet::Lock locked(core.shards(), 0);
      return core.selectors().alphas_set() != alphas_set;
    };
    do {  // Weights have to be converted with the exponent that made them.
      alphas_set = core.selectors().alphas_set();
      for_each_shard(part, core.shards(), order,
                     [&](std::size_t s, std::span<const std::uint32_t> indices) {
                       const ShardSet::Lock shard(core.shards(), s);
                       for (const std::uint32_t i : indices) {
                         weights[i] = shard->stored(selector, part[i]);
                       }
                     });
      unweigh(rule, weights);
    } while (alpha_changed());
  }
  return keys.size() - static_cast<std::size_t>(std::ranges::count_if(
                           priorities, [](float priority) { return std::isnan(priority); }));
}

SelectorTotals totals(BufferCore& core, std::size_t selector) {
  core.life().check_not_forked();
  static_cast<void>(core.selectors().at(selector));
  core.shards().drain();
  core.shards().refresh(selector);
  SelectorTotals totals;
  const ShardSet::LockAll all(core.shards());
  for (std::size_t s = 0; s < all.size(); ++s) {
    const SelectorSummary summary = all[s].selector(selector).summary();
    totals.weight += summary.total;
    totals.largest = std::max(totals.largest, summary.max);
    totals.items += all[s].items();
  }
  return totals;
}

SelectorSummary hinted(BufferCore& core, std::size_t selector) noexcept {
  SelectorSummary all{.min_positive = std::numeric_limits<float>::infinity()};
  for (std::size_t s = 0; s < core.shards().size(); ++s) {
    const SelectorSummary hint = core.shards()[s].hints().summary(selector);
    all.total += hint.total;
    all.min_positive = std::min(all.min_positive, hint.min_positive);
  }
  return all;
}

}  // namespace reprise::buffer
