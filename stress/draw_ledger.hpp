#pragma once

#include "drawn.hpp"
#include "findings.hpp"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace stress {

/// Counts how often each item was drawn, by all learners together, in buffers with a limit of
/// draws. It has one entry per place of the buffer, which the next item in that place takes over.
/// Any thread.
class DrawLedger {
 public:
  /// `most` 0: no limit, and draws are not counted. `fresh`: whether batches have fresh items.
  DrawLedger(std::size_t places, std::uint32_t most, bool fresh, Findings& findings)
      : most_(most),
        findings_(findings),
        entries_(most != 0 ? places : 0),
        fresh_(fresh ? places : 0, kNoKey) {}

  /// Continues the counts of a buffer that was saved while nobody drew from it, for the loaded
  /// buffer, from which one learner draws.
  void go_on_from(const DrawLedger& saved);

  /// Reports items that are fresh twice, items drawn too often, and keys that name two items.
  void count(const Drawn& drawn, std::span<const Judged> judged);

  /// How many of these keys name exhausted items.
  [[nodiscard]] std::size_t exhausted(std::span<const std::uint64_t> keys) const;

 private:
  /// Of no place. 0 is the key of the first item, if the buffer's tag is 0.
  static constexpr std::uint64_t kNoKey = ~std::uint64_t{0};
  struct Entry {
    std::uint64_t key = 0;
    std::uint64_t identity = 0;  ///< Hash of the item's identity.
    std::uint32_t draws = 0;     ///< 0: no item has been drawn from this place.
  };

  const std::uint32_t most_;
  Findings& findings_;
  bool loaded_ = false;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;        // Guarded by mutex_.
  std::vector<std::uint64_t> fresh_;  ///< The key that was fresh last. Guarded by mutex_.
};

}  // namespace stress
