#pragma once

#include "base/sync.hpp"
#include "storage/free_list.hpp"

#include <cstdint>

namespace reprise::storage {

/// Pins and retirement of one chunk: exactly one thread sees "retired and not pinned" and frees the
/// chunk (I2).
///
/// Pins are taken with the shard's lock held, and so are some of those that are given back:
/// `taken_` counts these pins without an atomic operation. `word_` counts pins given back without
/// the lock, by 2 each; retirement subtracts 2 for each pin that `taken_` counts and adds 1. So the
/// word is odd once the chunk is retired, and 1 once the chunk is not pinned either, and only one
/// thread can see it become 1. Numbers wrap harmlessly, because fewer than 2^31 pins exist at a
/// time.
template <class Sync>
class PinWord {
 public:
  /// The shard's lock must be held, and the chunk must not be retired.
  void pin() noexcept { taken_.set(taken_.get() + 1); }

  /// Gives a pin back without the lock. Returns whether the caller has to free the chunk.
  /// W1: acq_rel. Release so that this reader's reads come before the reuse; acquire so that the
  /// thread that frees comes after every other reader's reads. Partners: the other unpins and
  /// retire.
  [[nodiscard]] bool unpin() noexcept {
    return word_.fetch_add(kPin, base::Order::AcqRel) + kPin == kRetired;
  }

  /// As `unpin`, with the shard's lock held: no atomic operation unless the chunk is retired, which
  /// happens only under the lock.
  [[nodiscard]] bool unpin_locked() noexcept {
    if (retired()) {
      return unpin();
    }
    taken_.set(taken_.get() - 1);
    return false;
  }

  /// Shard's lock held. Returns whether the chunk is unpinned, so that the caller has to free it.
  /// W1: acq_rel; partner: unpin.
  [[nodiscard]] bool retire() noexcept {
    const std::uint32_t taken = kPin * taken_.get();
    return word_.fetch_add(kRetired - taken, base::Order::AcqRel) == taken;
  }

  /// For the thread that frees the chunk, before it pushes it on the free list.
  /// Relaxed: the free list publishes both words (F1).
  void reset() noexcept {
    taken_.set(0);
    word_.store(0, base::Order::Relaxed);
  }

  /// Shard's lock held. Relaxed: the bit is set under the lock, and reset when no pin is left.
  [[nodiscard]] bool retired() const noexcept {
    return (word_.load(base::Order::Relaxed) & kRetired) != 0;
  }

 private:
  static constexpr std::uint32_t kRetired = 1;
  static constexpr std::uint32_t kPin = 2;
  /// Guarded by the shard's lock, then owned by the thread that frees the chunk.
  Owned<Sync, std::uint32_t> taken_{0};
  typename Sync::template Atomic<std::uint32_t> word_{0};
};

}  // namespace reprise::storage
