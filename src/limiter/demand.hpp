#pragma once

#include "base/event.hpp"

#include <atomic>
#include <cstddef>

namespace reprise::limiter {

/// How many different items samplers wait for: while there are fewer, a ratio holds no writer.
/// Without it both sides would wait for ever where a batch takes more different items than the
/// ratio lets writers bring. Any thread.
class Demand {
 public:
  explicit Demand(base::Event& samplers) noexcept : samplers_(samplers) {}

  /// Relaxed: a held writer that misses a demand looks again before long.
  [[nodiscard]] std::size_t items() const noexcept {
    return items_.load(std::memory_order_relaxed);
  }

  /// One sampler's. It ends with the wait.
  class Call {
   public:
    explicit Call(Demand& demand) noexcept : demand_(demand) {}
    ~Call() {
      if (made_) {
        // E1: seq_cst; partner: the exchange in make. Who made a demand before this is registered,
        // and is woken to make it again.
        demand_.items_.store(0, std::memory_order_seq_cst);
        demand_.samplers_.wake_registered();
      }
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    /// By a sampler that is registered with the event.
    void make(std::size_t items) noexcept {
      made_ = true;
      // E1: seq_cst throughout; partner: the store above. A larger one that is seen here is taken
      // back later than this sampler registered, which is then woken.
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
