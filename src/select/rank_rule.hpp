#pragma once

#include <reprise/selectors/rank_based.hpp>

#include "base/mutex.hpp"
#include "select/rank_table.hpp"
#include "select/weight_rule.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace reprise::select {

/// The buckets of ranks that all shards of a `RankBased` selector share; every shard selector has a
/// copy. All copies are of one round whenever no thread holds the mutex.
///
/// The mutex is taken before shards' locks, which are taken one at a time. No thread waits for it:
/// a sampler that finds it taken draws with the present buckets. So no circle of locks can form.
class RankRule final : public SelectorRule {
 public:
  /// std::invalid_argument naming the option, its value and what is allowed.
  explicit RankRule(const RankBased& options);

  [[nodiscard]] bool needs_caller() const noexcept override { return initial_.needs_caller(); }
  [[nodiscard]] bool needs_refresh() const noexcept override { return true; }
  void refresh(const EachShardSelector& each_shard_selector) noexcept override
      REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t bytes(std::size_t leaves) const noexcept override;
  [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(
      std::size_t leaves) const override;

 private:
  static void round(RankTable& table, std::uint64_t& tallied,
                    const EachShardSelector& each_shard_selector) noexcept;
  static void cut(RankTable& table, const EachShardSelector& each_shard_selector) noexcept;

  const WeightRule initial_;  ///< Leaves priorities as they are.
  base::Mutex mutex_;
  RankTable table_ REPRISE_GUARDED_BY(mutex_);
  std::uint64_t tallied_ REPRISE_GUARDED_BY(mutex_) = 0;  ///< Number of changes at the last round.
};

}  // namespace reprise::select
