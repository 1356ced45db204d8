#include <reprise/selectors/rank_based.hpp>

#include "base/describe.hpp"
#include "base/mutex.hpp"
#include "base/normal.hpp"
#include "select/rank_lists.hpp"
#include "select/rank_table.hpp"
#include "select/weight_rule.hpp"
#include "tree/largest_tree.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>

namespace reprise {
namespace select {
namespace {

/// How many leaves are prefetched at a time.
constexpr std::size_t kFetched = 64;

/// `RankBased` in one shard: leaves in buckets of ranks, all leaves of a bucket with the same
/// weight. Buckets and weights change in each round of the rule; a leaf changes its bucket as soon
/// as its priority changes.
class RankSelector final : public ShardSelector {
 public:
  /// How many leaves are handled at a time, with their priorities on the stack.
  static constexpr std::size_t kBlock = 512;

  RankSelector(const WeightRule& initial, std::size_t leaves)
      : initial_(initial), priorities_(leaves), lists_(leaves) {
    weight_[0] = 1.0F;
  }
  [[nodiscard]] static std::size_t bytes(std::size_t leaves) noexcept {
    return tree::LargestTree<float>::bytes(leaves) + RankLists::bytes(leaves) +
           sizeof(RankSelector);
  }

  void expect_leaves(std::size_t leaves) noexcept override {
    priorities_.expect_leaves(leaves);
    lists_.expect_leaves(leaves);
  }

  void insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept override {
    // Each block is written before it is read.
    std::array<float, kBlock> priorities;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    highest_seen_ = std::max(highest_seen_, other_shards.highest_seen);
    float in_buffer = std::max(priorities_.largest(), other_shards.max);
    float last = 0.0F;
    std::uint16_t number = number_of(last);
    for (std::size_t done = 0; done < run.priorities.size(); done += kBlock) {
      const auto raw = run.priorities.subspan(done, std::min(kBlock, run.priorities.size() - done));
      const std::span<float> block = std::span(priorities).first(raw.size());
      const auto first = run.first + static_cast<std::uint32_t>(done);
      initial_.weigh_run(raw, block, in_buffer, highest_seen_);
      priorities_.assign_run(first, block);
      for (std::size_t i = 0; i < raw.size(); ++i) {
        if (!is_item(raw[i])) {
          continue;
        }
        if (block[i] != last) {
          last = block[i];
          number = number_of(last);
        }
        add(first + static_cast<std::uint32_t>(i), number);
      }
    }
  }

  void erase(std::uint32_t first, std::size_t count) noexcept override {
    for (std::size_t i = 0; i < count; ++i) {
      remove(first + static_cast<std::uint32_t>(i));
    }
    priorities_.clear_run(first, count);
  }

  [[nodiscard]] SelectorSummary summary() const noexcept override {
    if (total_is_old_) {
      total_ = 0.0;
      for (std::size_t i = 0; i < buckets_.size; ++i) {
        total_ += weight_of_bucket(i);
      }
      total_is_old_ = false;
    }
    float min_positive = std::numeric_limits<float>::infinity();
    for (std::size_t i = buckets_.size; i-- > 0;) {
      if (lists_.count(buckets_.number[i]) != 0) {
        min_positive = weight_[i];  // Weights fall with the rank.
        break;
      }
    }
    return {total_, min_positive, priorities_.largest(), highest_seen_};
  }

  /// O(count).
  [[nodiscard]] double sum(std::uint32_t first, std::size_t count) const noexcept override {
    double sum = 0.0;
    for (std::uint32_t leaf = first; leaf < first + count; ++leaf) {
      sum += holds(leaf) ? static_cast<double>(weight_[buckets_.find(priorities_[leaf])]) : 0.0;
    }
    return sum;
  }

  void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
            std::span<float> weights) const noexcept override {
    // The buckets that have items, and where the interval of targets of each one ends.
    std::array<double, RankLists::kBuckets> ends;           // NOLINT(*-pro-type-member-init)
    std::array<std::uint16_t, RankLists::kBuckets> bucket;  // NOLINT(*-pro-type-member-init)
    std::size_t count = 0;
    double sum = 0.0;
    for (std::size_t i = 0; i < buckets_.size; ++i) {
      const double begin = sum;
      sum += weight_of_bucket(i);
      ends[count] = sum;
      bucket[count] = static_cast<std::uint16_t>(i);
      count += sum > begin ? 1U : 0U;
    }
    // Leaves are handled in blocks, so that some are prefetched while others are found.
    std::array<const std::uint32_t*, kFetched> slots;  // NOLINT(*-pro-type-member-init)
    std::size_t at = 0;
    for (std::size_t done = 0; done < targets.size(); done += kFetched) {
      const std::size_t block = std::min(kFetched, targets.size() - done);
      for (std::size_t i = 0; i < block; ++i) {
        const double target = targets[done + i];
        // Targets rise, mostly by little.
        if (at != 0 && target < ends[at - 1]) {
          at = 0;
        }
        while (at < count - 1 && ends[at] <= target) {
          ++at;
        }
        const std::size_t place = bucket[at];
        const std::uint16_t number = buckets_.number[place];
        // Counted from the bucket's end, which is as exact as a double can be; rounding of the
        // division errs by less than a leaf.
        const double back = (ends[at] - target) / static_cast<double>(weight_[place]);
        const std::uint32_t last = lists_.count(number) - 1;
        const auto from_end =
            static_cast<std::uint32_t>(std::clamp(back, 0.0, static_cast<double>(last)));
        slots[i] = lists_.slot(number, last - from_end);
        __builtin_prefetch(slots[i]);
        weights[done + i] = weight_[place];
      }
      for (std::size_t i = 0; i < block; ++i) {
        leaves[done + i] = *slots[i];
      }
    }
  }

  [[nodiscard]] bool all_positive(std::span<const std::uint32_t> leaves) const noexcept override {
    return std::ranges::all_of(leaves, [this](std::uint32_t leaf) { return holds(leaf); });
  }

  void update(std::span<const std::uint32_t> leaves,
              std::span<const float> weights) noexcept override {
    for (const std::uint32_t leaf : leaves) {
      lists_.prefetch(leaf);
      priorities_.prefetch(leaf);
    }
    for (const std::uint32_t leaf : leaves) {
      lists_.prefetch_slot(leaf);
    }
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      // Checkpoints of 0.2 have denormal priorities.
      const float priority = base::normal_or_0(weights[i]);
      priorities_.assign(leaves[i], priority);
      const std::uint16_t number = number_of(priority);
      if (lists_.bucket_of(leaves[i]) != number) {
        remove(leaves[i]);
        add(leaves[i], number);
      }
    }
    highest_seen_ = std::max(highest_seen_, priorities_.largest());
  }

  void hide(std::span<const std::uint32_t> leaves) noexcept override {
    for (const std::uint32_t leaf : leaves) {
      if (holds(leaf)) {
        remove(leaf);
        priorities_.assign(leaf, -priorities_[leaf]);
      }
    }
  }
  /// The buckets are still those of `hide`, because the locks are held from hiding to showing.
  void show(std::span<const std::uint32_t> leaves,
            std::span<const float> /*weights*/) noexcept override {
    for (const std::uint32_t leaf : leaves) {
      if (!holds(leaf)) {
        priorities_.assign(leaf, std::abs(priorities_[leaf]));
        add(leaf, number_of(priorities_[leaf]));
      }
    }
  }

  /// Stores raw priorities.
  void store(std::span<const std::uint32_t> leaves,
             std::span<float> stored) const noexcept override {
    std::ranges::transform(leaves, stored.begin(),
                           [this](std::uint32_t leaf) { return std::abs(priorities_[leaf]); });
  }
  [[nodiscard]] SelectorMemory memory() const noexcept override {
    return {0.0, static_cast<double>(highest_seen_)};
  }
  void set_memory(const SelectorMemory& memory) noexcept override {
    highest_seen_ = highest_seen_of(memory.second);
  }

  // The steps of a round of the rule. Like all calls, they are made with the shard's lock held.

  /// Adds the items of each bucket to the tally; returns the number of changes so far.
  [[nodiscard]] std::uint64_t report(std::span<std::uint64_t> tally) const noexcept {
    for (std::size_t i = 0; i < tally.size(); ++i) {
      tally[i] += lists_.count(buckets_.number[i]);
    }
    return changes_;
  }
  /// Writes the priorities of all leaves in the buckets with these numbers, as far as `priorities`
  /// has room, and returns how many it wrote.
  [[nodiscard]] std::size_t collect(std::span<const std::uint16_t> numbers,
                                    std::span<float> priorities) const noexcept {
    std::size_t collected = 0;
    for (const std::uint16_t number : numbers) {
      const std::uint32_t count = lists_.count(number);
      for (std::uint32_t i = 0; i < count && collected < priorities.size(); ++i) {
        priorities[collected++] = priorities_[lists_.at(number, i)];
      }
    }
    return collected;
  }
  /// Copies the buckets and weights of the table.
  void adopt(const RankTable& table) noexcept {
    std::ranges::copy(table.weights(), weight_.begin());
    total_is_old_ = true;
    if (table.changed()) {
      buckets_ = table.buckets();
      for (const std::uint16_t number : table.touched()) {
        move_out(number);
      }
    }
  }

 private:
  void add(std::uint32_t leaf, std::uint16_t number) noexcept {
    lists_.add(leaf, number);
    ++changes_;
    total_is_old_ = true;
  }
  void remove(std::uint32_t leaf) noexcept {
    if (holds(leaf)) {
      lists_.remove(leaf);
      ++changes_;
      total_is_old_ = true;
    }
  }
  /// Moves those leaves of a bucket that belong to other buckets now.
  void move_out(std::uint16_t number) noexcept {
    for (std::uint32_t i = lists_.count(number); i-- > 0;) {
      const std::uint32_t leaf = lists_.at(number, i);
      const std::uint16_t to = number_of(priorities_[leaf]);
      if (to != number) {
        lists_.remove(leaf);
        lists_.add(leaf, to);
      }
    }
  }
  [[nodiscard]] bool holds(std::uint32_t leaf) const noexcept {
    return lists_.bucket_of(leaf) != RankLists::kNone;
  }
  [[nodiscard]] std::uint16_t number_of(float priority) const noexcept {
    return buckets_.number[buckets_.find(priority)];
  }
  [[nodiscard]] double weight_of_bucket(std::size_t bucket) const noexcept {
    return static_cast<double>(weight_[bucket]) * lists_.count(buckets_.number[bucket]);
  }

  const WeightRule initial_;             ///< Computes initial priorities; given ones stay.
  tree::LargestTree<float> priorities_;  ///< Raw priorities; those of hidden leaves are negated.
  RankLists lists_;                      ///< The leaves that can be drawn.
  RankBuckets buckets_;
  std::array<float, RankLists::kBuckets> weight_{};  ///< Weight of one leaf, by bucket.
  std::uint64_t changes_ = 0;                        ///< Leaves that entered or left a bucket.
  float highest_seen_ = 0.0F;

  // Sums are computed on demand, and kept until something changes.
  mutable double total_ = 0.0;
  mutable bool total_is_old_ = false;
};

/// Shard selectors of this rule are always of this type.
RankSelector& as_rank_selector(ShardSelector& selector) noexcept {
  return static_cast<RankSelector&>(selector);
}

/// The buckets of ranks that all shards of a `RankBased` selector share; every shard selector has a
/// copy. All copies are of one round whenever no thread holds the mutex.
///
/// The mutex is taken before shards' locks, which are taken one at a time. No thread waits for it:
/// a sampler that finds it taken draws with the present buckets. So no circle of locks can form.
class RankRule final : public SelectorRule {
 public:
  /// Throws as the constructor of WeightRule.
  explicit RankRule(const RankBased& options)
      : initial_({.alpha = 1.0F,
                  .epsilon = 0.0F,
                  .initial = options.initial,
                  .initial_constant = options.initial_constant},
                 "RankBased"),
        table_(static_cast<double>(options.alpha)) {}

  [[nodiscard]] bool needs_caller() const noexcept override { return initial_.needs_caller(); }
  [[nodiscard]] Law law() const noexcept override { return Law::ByRank; }
  [[nodiscard]] bool needs_refresh() const noexcept override { return true; }
  void refresh(const EachShardSelector& each_shard_selector) noexcept override
      REPRISE_EXCLUDES(mutex_) {
    if (mutex_.try_lock()) {
      round(table_, tallied_, each_shard_selector);
      mutex_.unlock();
    }
  }
  [[nodiscard]] std::size_t bytes(std::size_t leaves) const noexcept override {
    return RankSelector::bytes(leaves) + RankTable::bytes(leaves);
  }
  [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(
      std::size_t leaves) const override {
    return std::make_unique<RankSelector>(initial_, leaves);
  }

 private:
  /// If any item changed, fits the buckets to the present items, and their weights to the ranks.
  /// Items may change between the visits to a shard; then the buckets fit a little less well until
  /// the next round.
  static void round(RankTable& table, std::uint64_t& tallied,
                    const EachShardSelector& each_shard_selector) noexcept {
    const std::span<std::uint64_t> tally = table.cleared_tally();
    std::uint64_t changes = 0;
    const auto report = [&](ShardSelector& selector) {
      changes += as_rank_selector(selector).report(tally);
    };
    each_shard_selector(std::ref(report));
    if (changes == tallied) {
      return;
    }
    tallied = changes;
    const std::span<float> room = table.room_for_crowded();
    if (!room.empty()) {
      std::size_t collected = 0;
      const auto collect = [&](ShardSelector& selector) {
        collected += as_rank_selector(selector).collect(table.touched(), room.subspan(collected));
      };
      each_shard_selector(std::ref(collect));
      table.cut(room.first(collected));
    }
    table.weigh();
    each_shard_selector(
        [&table](ShardSelector& selector) { as_rank_selector(selector).adopt(table); });
    table.end_round();
  }

  const WeightRule initial_;  ///< Computes initial priorities; given ones stay.
  base::Mutex mutex_;
  RankTable table_ REPRISE_GUARDED_BY(mutex_);
  std::uint64_t tallied_ REPRISE_GUARDED_BY(mutex_) = 0;  ///< Number of changes at the last round.
};

}  // namespace
}  // namespace select

std::unique_ptr<SelectorRule> RankBased::make_selector_rule() const {
  selector_kind().check(*this);
  return std::make_unique<select::RankRule>(*this);
}

StrategyKind<Selector> RankBased::selector_kind() {
  return base::describe<Selector, RankBased>(
      "RankBased",
      R"(Draws item i with probability proportional to rank(i)^-alpha, where the item of highest
priority has rank 1 (Schaul et al., 2016). Items of equal priority share the mean weight of their
ranks. From rank 129 on ranks are in buckets, each at most a sixteenth of its rank wide and of one
weight: within 2.2% of the exact one at alpha 0.7. `initial` as of Proportional.)",
      base::option<&RankBased::alpha>("alpha", 0.0F, select::kMaxAlpha),
      base::option<&RankBased::initial>("initial", select::kInitials),
      base::option<&RankBased::initial_constant>("initial_constant"));
}

}  // namespace reprise
