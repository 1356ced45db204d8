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

/// Keeps for each item of a shard the version of the policy that made its first step. An item is
/// outdated if this version is below the oldest one that may be drawn, and the oldest one only
/// rises. A tree of the items' ages finds the outdated items; an item's age is the higher the lower
/// its version is.
///
/// Externally synchronised by the shard's lock. O(log items) per item that enters or is outdated.
class PolicyVersions final : public RowIndex {
 public:
  /// If not `enabled`, the index keeps nothing and takes no memory.
  PolicyVersions(storage::ChunkStore& store, std::size_t leaves, bool enabled)
      : store_(store), leaves_(enabled ? leaves : 0), ages_(leaves_) {}

  [[nodiscard]] bool enabled() const noexcept { return leaves_ != 0; }
  /// How many resident items of the shard are known to be outdated.
  [[nodiscard]] std::size_t outdated() const noexcept { return outdated_; }

  void raise_oldest(std::int64_t oldest) noexcept { oldest_ = std::max(oldest_, oldest); }
  /// Finds items that have become outdated since the last call, at most as many as `leaves` has
  /// room for. Writes their leaves, and returns how many it found.
  std::size_t find_outdated(std::span<std::uint32_t> leaves) noexcept {
    std::size_t count = 0;
    while (count < leaves.size() && ages_.largest() > age_of(oldest_)) {
      leaves[count++] = ages_.replace_largest(kOutdated);
    }
    outdated_ += count;
    return count;
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
      if (storage::is_item(priorities[i]) && ages_[rows.first_leaf + i] == kOutdated) {
        --outdated_;
      }
    }
    ages_.clear_run(rows.first_leaf, rows.size());
  }
  [[nodiscard]] Memory memory() const noexcept override {
    return {enabled() ? tree::LargestTree<std::int64_t>::bytes(leaves_) : 0, 0};
  }

 private:
  static constexpr std::int64_t kOutdated = 0;  ///< Also the age of a row without an item.
  static constexpr std::int64_t kNewest = std::numeric_limits<std::int64_t>::max() - 1;

  /// The age of a version, which is at least 1, so that the two highest versions share one.
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
