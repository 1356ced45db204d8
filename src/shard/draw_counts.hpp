#pragma once

#include "base/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise::shard {

/// How often the item of each leaf was drawn, where that is limited. A leaf is spent once it was
/// drawn as often as it may be. Externally synchronised.
class DrawCounts {
 public:
  /// `limit` 0: nothing is counted, and no memory is taken.
  DrawCounts(std::size_t leaves, std::uint32_t limit)
      : limit_(limit), counts_(limit == 0 ? 0 : leaves) {}

  [[nodiscard]] bool limited() const noexcept { return limit_ != 0; }
  [[nodiscard]] bool spent(std::uint32_t leaf) const noexcept {
    return limited() && counts_[leaf] == limit_;
  }
  /// Spent leaves among these.
  [[nodiscard]] std::size_t spent(std::uint32_t first, std::size_t count) const noexcept {
    return limited() ? static_cast<std::size_t>(std::count(counts_.data() + first,
                                                           counts_.data() + first + count, limit_))
                     : 0;
  }

  /// Items that were never drawn move in.
  void clear(std::uint32_t first, std::size_t count) noexcept {
    if (limited()) {
      std::fill_n(counts_.data() + first, count, 0U);
    }
  }
  /// One draw of a leaf that is not spent, or one taken back.
  void add(std::uint32_t leaf) noexcept {
    if (limited()) {
      ++counts_[leaf];
    }
  }
  [[nodiscard]] std::uint32_t of(std::uint32_t leaf) const noexcept {
    return limited() ? counts_[leaf] : 0;
  }
  /// As a checkpoint says: at most the limit.
  void restore(std::uint32_t leaf, std::uint32_t count) noexcept {
    if (limited()) {
      counts_[leaf] = std::min(count, limit_);
    }
  }
  void take_back(std::uint32_t leaf) noexcept {
    if (limited()) {
      --counts_[leaf];
    }
  }

 private:
  const std::uint32_t limit_;
  base::LazyArray<std::uint32_t> counts_;
};

}  // namespace reprise::shard
