#pragma once

#include "shard/row_index.hpp"
#include "storage/chunk_store.hpp"
#include "tree/largest_tree.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace reprise::shard {

/// The version of the policy that made the first step of each item of a shard. An item is outdated
/// if its version is below the oldest one that may be drawn, which only rises.
///
/// Externally synchronised by the shard's lock. O(log items) per item that enters or is outdated.
class PolicyVersions final : public RowIndex {
 public:
  /// If not `enabled`, nothing is kept, no memory is taken and no event has to be told.
  PolicyVersions(storage::ChunkStore& store, std::size_t leaves, bool enabled)
      : store_(store), leaves_(enabled ? leaves : 0), ages_(leaves_) {}

  [[nodiscard]] bool on() const noexcept { return leaves_ != 0; }
  /// How many items of the shard are outdated.
  [[nodiscard]] std::size_t outdated() const noexcept { return outdated_; }

  void raise_oldest(std::int64_t oldest) noexcept { oldest_ = std::max(oldest_, oldest); }
  /// Counts items as outdated that have become so, and writes their leaves, as many as there is
  /// room for; returns how many.
  std::size_t take(std::span<std::uint32_t> leaves) noexcept {
    std::size_t taken = 0;
    while (taken < leaves.size() && ages_.largest() > age_of(oldest_)) {
      leaves[taken++] = ages_.replace_largest(kOutdated);
    }
    outdated_ += taken;
    return taken;
  }

  void enter(const Rows& rows, std::span<const SelectorSummary> /*others*/) noexcept override {
    const float* const priorities = store_.priorities(rows.chunk);
    std::array<std::int64_t, kItemsAtATime> ages;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    for (std::uint32_t begin = rows.begin; begin < rows.end;) {
      const std::size_t count = std::min<std::size_t>(ages.size(), rows.end - begin);
      for (std::uint32_t i = 0; i < count; ++i) {
        const bool item = storage::is_item(priorities[begin + i]);
        ages[i] = item ? age_of(store_.policy_version(rows.chunk, begin + i)) : kOutdated;
      }
      ages_.assign_run(rows.first_leaf + (begin - rows.begin), std::span(ages).first(count));
      begin += static_cast<std::uint32_t>(count);
    }
  }
  void leave(const Rows& rows) noexcept override {
    const float* const priorities = store_.priorities(rows.chunk) + rows.begin;
    for (std::size_t i = 0; outdated_ != 0 && i < rows.size(); ++i) {
      const bool item = storage::is_item(priorities[i]);
      outdated_ -= item && ages_[rows.first_leaf + i] == kOutdated ? 1U : 0U;
    }
    ages_.clear_run(rows.first_leaf, rows.size());
  }
  [[nodiscard]] Memory memory() const noexcept override {
    return {on() ? tree::LargestTree<std::int64_t>::bytes(leaves_) : 0, 0};
  }

 private:
  static constexpr std::int64_t kOutdated = 0;  ///< The age of an outdated item, and of no item.
  static constexpr std::int64_t kNewest = std::numeric_limits<std::int64_t>::max() - 1;

  /// The age of a version: it falls as versions rise, and is above 0. The two highest 64-bit
  /// numbers have the same age.
  [[nodiscard]] static std::int64_t age_of(std::int64_t version) noexcept {
    return kNewest + 1 - std::clamp<std::int64_t>(version, 0, kNewest);
  }

  storage::ChunkStore& store_;
  const std::size_t leaves_;
  tree::LargestTree<std::int64_t> ages_;  ///< By leaf.
  std::int64_t oldest_ = 0;
  std::size_t outdated_ = 0;
};

}  // namespace reprise::shard
