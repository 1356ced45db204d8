#pragma once

#include "base/sync.hpp"

#include <cstdint>

namespace reprise::storage {

/// Pins and retirement of one chunk in one word, so that exactly one party sees "retired and not
/// pinned" and frees the chunk (I2). Two words could be seen by both or by neither.
template <class Sync>
class PinWord {
 public:
  /// Shard lock held, chunk not retired.
  /// Relaxed: the lock orders it against retire, which runs under the same lock.
  void pin() noexcept { word_.fetch_add(1, base::Order::Relaxed); }

  /// Any thread that pinned. True if the caller has to free the chunk.
  /// W1: acq_rel: release so that this reader's reads come before the reuse, acquire so that the
  /// freer comes after every other reader's; partners: the other unpins and retire.
  [[nodiscard]] bool unpin() noexcept {
    return word_.fetch_sub(1, base::Order::AcqRel) == (kRetired | 1U);
  }

  /// Shard lock held. True if nobody pins it: the caller has to free the chunk.
  /// W1: acq_rel; partner: unpin.
  [[nodiscard]] bool retire() noexcept {
    return word_.fetch_or(kRetired, base::Order::AcqRel) == 0;
  }

  /// By whoever has to free it, before it goes on the free list.
  /// Relaxed: the free list publishes it (F1).
  void reset() noexcept { word_.store(0, base::Order::Relaxed); }

  /// Relaxed: for statistics.
  [[nodiscard]] bool retired() const noexcept {
    return (word_.load(base::Order::Relaxed) & kRetired) != 0;
  }

 private:
  static constexpr std::uint32_t kRetired = 1U << 31U;
  typename Sync::template Atomic<std::uint32_t> word_{0};
};

}  // namespace reprise::storage
