#pragma once

#include "base/sync.hpp"
#include "storage/owned.hpp"

#include <cstdint>

namespace reprise::storage {

/// Pins and retirement of one chunk, so that exactly one party sees "retired and not pinned" and
/// frees the chunk (I2).
///
/// Pins are taken under the shard's lock, so they are counted there without an atomic operation,
/// and so are pins given back with the lock held; the word counts the others given back, in twos,
/// and retirement subtracts the count and adds one. So the word is odd once the chunk is retired,
/// and 1 once it is not pinned either: one word, which two parties cannot both see become 1.
/// Numbers wrap harmlessly: fewer than 2^31 pins are out at a time.
template <class Sync>
class PinWord {
 public:
  /// Shard lock held, chunk not retired.
  void pin() noexcept { taken_.set(taken_.get() + 1); }

  /// Any thread that pinned. True if the caller has to free the chunk.
  /// W1: acq_rel: release so that this reader's reads come before the reuse, acquire so that the
  /// freer comes after every other reader's; partners: the other unpins and retire.
  [[nodiscard]] bool unpin() noexcept {
    return word_.fetch_add(kPin, base::Order::AcqRel) + kPin == kRetired;
  }

  /// The same with the shard lock held: no atomic operation unless the chunk is retired, which it
  /// becomes under the lock alone.
  [[nodiscard]] bool unpin_locked() noexcept {
    if (retired()) {
      return unpin();
    }
    taken_.set(taken_.get() - 1);
    return false;
  }

  /// Shard lock held. True if nobody pins it: the caller has to free the chunk.
  /// W1: acq_rel; partner: unpin.
  [[nodiscard]] bool retire() noexcept {
    const std::uint32_t taken = kPin * taken_.get();
    return word_.fetch_add(kRetired - taken, base::Order::AcqRel) == taken;
  }

  /// By whoever has to free it, before it goes on the free list.
  /// Relaxed: the free list publishes it (F1), with `taken_`.
  void reset() noexcept {
    taken_.set(0);
    word_.store(0, base::Order::Relaxed);
  }

  /// Shard lock held. Relaxed: it is set under the lock, and reset when no pin is left.
  [[nodiscard]] bool retired() const noexcept {
    return (word_.load(base::Order::Relaxed) & kRetired) != 0;
  }

 private:
  static constexpr std::uint32_t kRetired = 1;
  static constexpr std::uint32_t kPin = 2;
  Owned<Sync, std::uint32_t> taken_{0};  ///< Guarded by the shard's lock, then the freer's.
  typename Sync::template Atomic<std::uint32_t> word_{0};
};

}  // namespace reprise::storage
