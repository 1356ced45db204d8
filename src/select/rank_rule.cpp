#include "select/rank_rule.hpp"

#include "base/text.hpp"
#include "select/rank_selector.hpp"

#include <functional>
#include <span>
#include <stdexcept>

namespace reprise {

std::unique_ptr<SelectorRule> RankBased::make_selector_rule() const {
  return std::make_unique<select::RankRule>(*this);
}

namespace select {
namespace {

constexpr float kMaxAlpha = 8.0F;

float checked_alpha(float alpha) {
  if (!(alpha >= 0.0F && alpha <= kMaxAlpha)) {
    throw std::invalid_argument(base::text("RankBased::alpha is ", alpha, "; allowed: 0 to 8"));
  }
  return alpha;
}

/// Shard selectors of this rule are always of this type.
RankSelector& as_rank_selector(ShardSelector& selector) noexcept {
  return static_cast<RankSelector&>(selector);
}

}  // namespace

RankRule::RankRule(const RankBased& options)
    : initial_({.alpha = 1.0F,
                .epsilon = 0.0F,
                .initial = options.initial,
                .initial_constant = options.initial_constant},
               "RankBased"),
      table_(static_cast<double>(checked_alpha(options.alpha))) {}

void RankRule::refresh(const EachShardSelector& each_shard_selector) noexcept {
  if (mutex_.try_lock()) {
    round(table_, tallied_, each_shard_selector);
    mutex_.unlock();
  }
}

void RankRule::round(RankTable& table, std::uint64_t& tallied,
                     const EachShardSelector& each_shard_selector) noexcept {
  RankTally& tally = table.tally();
  tally.clear(table.buckets().size);
  each_shard_selector(
      [&tally](ShardSelector& selector) { as_rank_selector(selector).report(tally); });
  if (tally.changes == tallied) {
    return;
  }
  tallied = tally.changes;
  cut(table, each_shard_selector);
  table.weigh();
  each_shard_selector(
      [&table](ShardSelector& selector) { as_rank_selector(selector).adopt(table); });
  table.end_round();
}

/// Items may change between the two visits to a shard; then the buckets fit a little less well
/// until the next round.
void RankRule::cut(RankTable& table, const EachShardSelector& each_shard_selector) noexcept {
  if (!table.find_crowded()) {
    return;
  }
  std::span<float> room = table.room();
  if (room.empty()) {
    return;
  }
  std::size_t collected = 0;
  const auto collect = [&](ShardSelector& selector) {
    collected += as_rank_selector(selector).collect(table.touched(), room.subspan(collected));
  };
  each_shard_selector(std::ref(collect));
  table.cut(room.first(collected));
}

std::size_t RankRule::bytes(std::size_t leaves) const noexcept {
  return RankSelector::bytes(leaves) + RankTable::bytes(leaves);
}

std::unique_ptr<ShardSelector> RankRule::make_shard_selector(std::size_t leaves) const {
  return std::make_unique<RankSelector>(initial_, leaves);
}

}  // namespace select
}  // namespace reprise
