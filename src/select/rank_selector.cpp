#include "select/rank_selector.hpp"

#include <algorithm>
#include <limits>

namespace reprise::select {
namespace {

/// Leaves handled together, with their priorities on the stack.
constexpr std::size_t kBlock = 512;
/// Leaves prefetched together.
constexpr std::size_t kFetched = 64;

}  // namespace

RankSelector::RankSelector(const WeightRule& initial, std::size_t leaves)
    : initial_(initial), priorities_(leaves), lists_(leaves) {
  weight_[0] = 1.0F;
}

std::size_t RankSelector::bytes(std::size_t leaves) noexcept {
  return tree::LargestTree<float>::bytes(leaves) + RankLists::bytes(leaves) + sizeof(RankSelector);
}

void RankSelector::bound(float priority, std::uint16_t number) noexcept {
  const bool first = lists_.count(number) == 0;
  least_[number] = first ? priority : std::min(least_[number], priority);
  most_[number] = first ? priority : std::max(most_[number], priority);
}

void RankSelector::add(std::uint32_t leaf, float priority, std::uint16_t number) noexcept {
  bound(priority, number);
  lists_.add(leaf, number);
  ++changes_;
  total_is_old_ = true;
}

void RankSelector::remove(std::uint32_t leaf) noexcept {
  if (holds(leaf)) {
    lists_.remove(leaf);
    ++changes_;
    total_is_old_ = true;
  }
}

void RankSelector::insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept {
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
      add(first + static_cast<std::uint32_t>(i), last, number);
    }
  }
}

void RankSelector::erase(std::uint32_t first, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    remove(first + static_cast<std::uint32_t>(i));
  }
  priorities_.clear_run(first, count);
}

double RankSelector::weight_of_bucket(std::size_t bucket) const noexcept {
  return static_cast<double>(weight_[bucket]) * lists_.count(buckets_.number[bucket]);
}

float RankSelector::weight(std::uint32_t leaf) const noexcept {
  return holds(leaf) ? weight_[buckets_.find(priorities_[leaf])] : 0.0F;
}

SelectorSummary RankSelector::summary() const noexcept {
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

double RankSelector::sum(std::uint32_t first, std::size_t count) const noexcept {
  double sum = 0.0;
  for (std::uint32_t leaf = first; leaf < first + count; ++leaf) {
    sum += static_cast<double>(weight(leaf));
  }
  return sum;
}

void RankSelector::draw(std::span<double> targets, std::span<std::uint32_t> leaves,
                        std::span<float> weights) const noexcept {
  // The ends of the buckets that have any width, by bucket.
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
      // Counting from the end, where the next bucket begins, errs by less than a leaf through
      // rounding.
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

bool RankSelector::all_positive(std::span<const std::uint32_t> leaves) const noexcept {
  return std::all_of(leaves.begin(), leaves.end(),
                     [this](std::uint32_t leaf) { return holds(leaf); });
}

void RankSelector::update(std::span<const std::uint32_t> leaves,
                          std::span<const float> weights) noexcept {
  for (const std::uint32_t leaf : leaves) {
    lists_.prefetch(leaf);
    priorities_.prefetch(leaf);
  }
  for (const std::uint32_t leaf : leaves) {
    lists_.prefetch_slot(leaf);
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    priorities_.assign(leaves[i], weights[i]);
    const std::uint16_t number = number_of(weights[i]);
    if (lists_.bucket_of(leaves[i]) == number) {
      bound(weights[i], number);
      ++changes_;
      continue;
    }
    remove(leaves[i]);
    add(leaves[i], weights[i], number);
  }
  highest_seen_ = std::max(highest_seen_, priorities_.largest());
}

void RankSelector::hide(std::span<const std::uint32_t> leaves) noexcept {
  for (const std::uint32_t leaf : leaves) {
    remove(leaf);
  }
}

/// The buckets are those at the time of hiding, because the locks are held from hiding to showing.
void RankSelector::show(std::span<const std::uint32_t> leaves,
                        std::span<const float> /*weights*/) noexcept {
  for (const std::uint32_t leaf : leaves) {
    if (!holds(leaf)) {
      const float priority = priorities_[leaf];
      add(leaf, priority, number_of(priority));
    }
  }
}

void RankSelector::store(std::span<const std::uint32_t> leaves,
                         std::span<float> stored) const noexcept {
  std::transform(leaves.begin(), leaves.end(), stored.begin(),
                 [this](std::uint32_t leaf) { return priorities_[leaf]; });
}

void RankSelector::report(RankTally& tally) const noexcept {
  tally.changes += changes_;
  for (std::size_t i = 0; i < buckets_.size; ++i) {
    const std::uint16_t number = buckets_.number[i];
    const std::uint32_t count = lists_.count(number);
    tally.items[i] += count;
    if (count != 0) {
      tally.least[i] = std::min(tally.least[i], least_[number]);
      tally.most[i] = std::max(tally.most[i], most_[number]);
    }
  }
}

std::size_t RankSelector::collect(std::span<const std::uint16_t> numbers,
                                  std::span<float> into) const noexcept {
  std::size_t collected = 0;
  for (const std::uint16_t number : numbers) {
    const std::uint32_t count = lists_.count(number);
    for (std::uint32_t i = 0; i < count && collected < into.size(); ++i) {
      into[collected++] = priorities_[lists_.at(number, i)];
    }
  }
  return collected;
}

void RankSelector::adopt(const RankTable& table) noexcept {
  std::copy(table.weights().begin(), table.weights().end(), weight_.begin());
  total_is_old_ = true;
  if (table.changed()) {
    buckets_.assign(table.buckets());
    for (const std::uint16_t number : table.touched()) {
      move_out(number);
    }
  }
}

/// Moves leaves that belong to other buckets, and recomputes the bounds of this one.
void RankSelector::move_out(std::uint16_t number) noexcept {
  float least = std::numeric_limits<float>::infinity();
  float most = 0.0F;
  for (std::uint32_t i = lists_.count(number); i-- > 0;) {
    const std::uint32_t leaf = lists_.at(number, i);
    const float priority = priorities_[leaf];
    const std::uint16_t to = number_of(priority);
    if (to == number) {
      least = std::min(least, priority);
      most = std::max(most, priority);
    } else {
      lists_.remove(leaf);
      bound(priority, to);
      lists_.add(leaf, to);
    }
  }
  least_[number] = least;
  most_[number] = most;
}

}  // namespace reprise::select
