#pragma once

#include <reprise/selector.hpp>

#include "base/sync.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::shard {

/// Relaxed throughout, because stale hints are harmless. A stale summary changes how draws are
/// allotted, but not a reported probability, which is computed from the shares that were really
/// used. For the initial priority of a new item no exact maximum is needed. A thread that needs
/// exact counts, or must not miss a bell, takes the lock.
class Hints {
 public:
  /// A value that is written only when it changes, so that readers keep its cache line.
  template <class T>
  class Hint {
   public:
    [[nodiscard]] T operator()() const noexcept { return value_.load(std::memory_order_relaxed); }
    void set(T value) noexcept {
      if ((*this)() != value) {
        value_.store(value, std::memory_order_relaxed);
      }
    }

   private:
    std::atomic<T> value_{};
  };

  explicit Hints(std::size_t selectors) : summaries_(selectors) {}

  [[nodiscard]] SelectorSummary summary(std::size_t selector) const noexcept {
    const Summary& hint = summaries_[selector];
    return {hint.total(), hint.min_positive(), hint.max(), hint.highest_seen()};
  }
  void publish(std::size_t selector, const SelectorSummary& summary) noexcept {
    Summary& hint = summaries_[selector];
    hint.total.set(summary.total);
    hint.min_positive.set(summary.min_positive);
    hint.max.set(summary.max);
    hint.highest_seen.set(summary.highest_seen);
  }

 private:
  /// Each selector has its own cache line, so that a change of one does not disturb readers of
  /// another.
  struct alignas(base::kCacheLine) Summary {
    Hint<double> total;
    Hint<float> min_positive;
    Hint<float> max;
    Hint<float> highest_seen;
  };

  std::vector<Summary> summaries_;

 public:
  Hint<std::size_t> items;
  Hint<std::size_t> draws_left;
  Hint<std::size_t> fresh;     ///< Fresh items, if they are tracked.
  Hint<std::size_t> outdated;  ///< Outdated items that are not yet evicted.
  Hint<std::uint32_t> chunks;  ///< Chunks with steps.
  Hint<bool> backlog;
};

}  // namespace reprise::shard
