#include <reprise/selectors/recency.hpp>

#include "base/describe.hpp"
#include "base/text.hpp"
#include "select/tree_selector.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace reprise {
namespace select {
namespace {

/// How far the height of an item (`RecencyRule::height`) may be above the unit. Beyond
/// kRebaseHeight the unit rises, and all shards follow at the next draw. A shard with an item
/// beyond kMaxHeight follows at once, because a float cannot hold 2^128.
constexpr std::int64_t kRebaseHeight = 64;
constexpr std::int64_t kMaxHeight = 120;

/// The weight of an item is 2^(height - unit), where the height is `bits_` times the item's number.
/// So weights rise with the number instead of falling with the age, and stay as they are while
/// other items come. All shards have the same unit. It is a whole number, so that a change of the
/// unit rounds only weights that would be below 2^-126.
class RecencyRule final : public SelectorRule {
 public:
  explicit RecencyRule(const Recency& options)
      : bits_(-std::log1p(-static_cast<double>(options.p)) / std::numbers::ln2) {}

  [[nodiscard]] bool needs_item_numbers() const noexcept override { return true; }
  [[nodiscard]] Law law() const noexcept override { return Law::ByAge; }
  [[nodiscard]] bool needs_refresh() const noexcept override { return true; }
  void refresh(const EachShardSelector& each_shard_selector) noexcept override;
  [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(
      std::size_t leaves) const override;

  /// The base-2 logarithm of the weight that the item of this number would have with a unit of 0.
  [[nodiscard]] double height(std::uint64_t number) const noexcept {
    return bits_ * static_cast<double>(number);
  }
  /// The unit that all shards should have. Raises it if an item of this height needs that.
  [[nodiscard]] std::int64_t unit_for(std::int64_t height) const noexcept {
    // Relaxed, because no thread reads other data by the unit.
    std::int64_t unit = unit_.load(std::memory_order_relaxed);
    while (height - unit > kRebaseHeight) {
      if (unit_.compare_exchange_weak(unit, height, std::memory_order_relaxed)) {
        return height;
      }
    }
    return unit;
  }

 private:
  const double bits_;
  /// Mutable, because shard selectors raise it, and they have the rule as const.
  mutable std::atomic<std::int64_t> unit_ = 0;
  std::atomic<std::int64_t> shards_unit_ = 0;  ///< Every shard has this unit or a higher one.
};

class RecencySelector final : public TreeSelector {
 public:
  RecencySelector(const RecencyRule& rule, std::size_t leaves)
      : TreeSelector(WeightRule(Uniform{}), leaves), rule_(rule) {}

  void insert(const ItemRun& run, const SelectorSummary& /*other_shards*/) noexcept override {
    const std::size_t rows = run.priorities.size();
    for (std::size_t i = rows; i-- > 0;) {
      if (is_item(run.priorities[i])) {
        const auto highest = static_cast<std::int64_t>(rule_.height(run.numbers[i]));
        const std::int64_t unit = rule_.unit_for(highest);
        if (highest - unit_ > kMaxHeight) {
          change_unit(unit);
        }
        break;
      }
    }
    // Each block is written before it is read.
    std::array<float, kBlock> weights;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    for (std::size_t done = 0; done < rows; done += kBlock) {
      const std::size_t count = std::min(kBlock, rows - done);
      for (std::size_t i = 0; i < count; ++i) {
        weights[i] = is_item(run.priorities[done + i]) ? weight(run.numbers[done + i]) : 0.0F;
      }
      assign_run(run.first + static_cast<std::uint32_t>(done), std::span(weights).first(count));
    }
  }

  /// Raises the shard's unit to this one, unless it is as high already. O(leaves used).
  void change_unit(std::int64_t unit) noexcept {
    if (unit > unit_) {
      scale(std::exp2(static_cast<double>(unit_ - unit)));
      unit_ = unit;
    }
  }

 private:
  [[nodiscard]] float weight(std::uint64_t number) const noexcept {
    const double weight = std::exp2(rule_.height(number) - static_cast<double>(unit_));
    return std::max(static_cast<float>(weight), std::numeric_limits<float>::min());
  }

  const RecencyRule& rule_;
  std::int64_t unit_ = 0;
};

/// Relaxed is harmless: a sampler that does not see yet that another one has visited all shards
/// visits them again; one that misses a new unit draws with shares of two units, and reports the
/// probabilities of these draws.
void RecencyRule::refresh(const EachShardSelector& each_shard_selector) noexcept {
  const std::int64_t unit = unit_.load(std::memory_order_relaxed);
  if (shards_unit_.load(std::memory_order_relaxed) < unit) {
    each_shard_selector([unit](ShardSelector& selector) {
      static_cast<RecencySelector&>(selector).change_unit(unit);
    });
    shards_unit_.store(unit, std::memory_order_relaxed);
  }
}

std::unique_ptr<ShardSelector> RecencyRule::make_shard_selector(std::size_t leaves) const {
  return std::make_unique<RecencySelector>(*this, leaves);
}

}  // namespace
}  // namespace select

std::unique_ptr<SelectorRule> Recency::make_selector_rule() const {
  selector_kind().check(*this);
  return std::make_unique<select::RecencyRule>(*this);
}

StrategyKind<Selector> Recency::selector_kind() {
  return base::describe<Selector, Recency>(
      "Recency",
      R"(Draws item i with probability (1 - p)^age / sum, where the age of an item is the number of items
that were decided after it (truncated geometric; Korniak et al., 2026). The mean age is near
1 / p if the buffer has many times as many items.

p: 0 (uniform) to 0.5.)",
      base::option<&Recency::p>("p", 0.0F, 0.5F));
}

}  // namespace reprise
