#pragma once

#include "base/event.hpp"

#include <atomic>
#include <cstddef>

namespace reprise::limiter {

/// The number of different items that waiting samplers ask writers for. While there are fewer
/// items, a ratio holds no writer; otherwise both sides would wait for ever if a batch takes more
/// different items than the ratio lets writers bring. Any thread.
class Demand {
 public:
  explicit Demand(base::Event& samplers) noexcept : samplers_(samplers) {}

  /// Relaxed: a held writer that misses a demand looks again before long.
  [[nodiscard]] std::size_t items() const noexcept {
    return items_.load(std::memory_order_relaxed);
  }

  /// The demand of one sampler. The sampler destroys it when its wait ends.
  class Call {
   public:
    explicit Call(Demand& demand) noexcept : demand_(demand) {}
    ~Call() {
      if (made_) {
        // E1: seq_cst; partner: the exchange in make. The store clears the demands of all samplers.
        // Every sampler that made one before is registered, so it is woken and makes it again.
        demand_.items_.store(0, std::memory_order_seq_cst);
        demand_.samplers_.wake_registered();
      }
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    /// Raises the demand to at least `items`. The calling sampler has to be registered with the
    /// event.
    void make(std::size_t items) noexcept {
      made_ = true;
      // E1: seq_cst throughout; partner: the store above. If a larger demand is seen here, nothing
      // is stored; the store that clears it comes after this sampler registered, so this sampler is
      // woken.
      std::size_t now = demand_.items_.load(std::memory_order_seq_cst);
      while (now < items && !demand_.items_.compare_exchange_weak(now, items)) {
      }
    }

   private:
    Demand& demand_;
    bool made_ = false;
  };

 private:
  base::Event& samplers_;
  std::atomic<std::size_t> items_{0};
};

}  // namespace reprise::limiter
