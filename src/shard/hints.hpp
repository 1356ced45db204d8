#pragma once

#include <reprise/selector.hpp>

#include "base/cache_line.hpp"

#include <atomic>
#include <cstddef>
#include <vector>

namespace reprise::shard {

/// Summaries of a shard's selectors as of its last unlock, for those who do not hold its lock. Any
/// thread reads; the lock's holder publishes.
class Hints {
 public:
  explicit Hints(std::size_t selectors) : hints_(selectors) {}

  /// Relaxed: a stale hint shifts how draws are allotted, never a reported probability, which uses
  /// the shares that the draw was really allotted by; initial priorities are a rule of thumb.
  [[nodiscard]] SelectorSummary read(std::size_t selector) const noexcept {
    const Hint& hint = hints_[selector];
    return {hint.total.load(std::memory_order_relaxed),
            hint.min_positive.load(std::memory_order_relaxed),
            hint.max.load(std::memory_order_relaxed),
            hint.highest_seen.load(std::memory_order_relaxed)};
  }

  /// Relaxed: see read.
  void publish(std::size_t selector, const SelectorSummary& summary) noexcept {
    Hint& hint = hints_[selector];
    hint.total.store(summary.total, std::memory_order_relaxed);
    hint.min_positive.store(summary.min_positive, std::memory_order_relaxed);
    hint.max.store(summary.max, std::memory_order_relaxed);
    hint.highest_seen.store(summary.highest_seen, std::memory_order_relaxed);
  }

 private:
  /// One per cache line, so that readers of one selector do not disturb the others.
  struct alignas(base::kCacheLine) Hint {
    std::atomic<double> total{0.0};
    std::atomic<float> min_positive{0.0F};
    std::atomic<float> max{0.0F};
    std::atomic<float> highest_seen{0.0F};
  };

  std::vector<Hint> hints_;
};

}  // namespace reprise::shard
