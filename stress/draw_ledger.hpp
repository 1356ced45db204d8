#pragma once

#include "drawn.hpp"
#include "findings.hpp"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace stress {

/// How often each item was drawn, by all learners together; for buffers in which an item may be
/// drawn only so often. Memory is that of one entry per place of the buffer: an item's entry goes
/// to the next one in its place. Any thread.
class DrawLedger {
 public:
  /// `most` 0: no limit, and nothing is counted.
  DrawLedger(std::size_t places, std::uint32_t most, Findings& findings)
      : most_(most), findings_(findings), entries_(most != 0 ? places : 0) {}

  /// Goes on from the counts of a buffer that was saved while nobody drew from it, for the one that
  /// was loaded, from which one learner draws.
  void go_on_from(const DrawLedger& saved);

  /// Reports items drawn too often, and keys that name two items.
  void count(const Drawn& drawn, std::span<const Judged> judged);

  /// Of these keys, those whose items cannot be drawn any more.
  [[nodiscard]] std::size_t exhausted(std::span<const std::uint64_t> keys) const;

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::uint64_t identity = 0;  ///< Its hash.
    std::uint32_t draws = 0;     ///< 0: nobody has been here.
  };

  const std::uint32_t most_;
  Findings& findings_;
  bool loaded_ = false;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // Guarded by mutex_.
};

}  // namespace stress
