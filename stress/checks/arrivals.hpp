#pragma once

#include "checks/drawn.hpp"
#include "checks/testing.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stress {

/// Raises a maximum. Relaxed: it is read for display, or while all stand still.
inline void raise(std::atomic<std::uint64_t>& most, std::uint64_t to) noexcept {
  std::uint64_t seen = most.load(std::memory_order_relaxed);
  while (seen < to && !most.compare_exchange_weak(seen, to, std::memory_order_relaxed)) {
  }
}

/// When each step arrived, counted in the steps of all writers, and whether the item that begins
/// with it was drawn: so it is known how old items become, and which are never drawn. Any thread.
///
/// A step is counted after its commit. What was counted after an item came after it, but for one
/// step of each writer, which may have been committed before the item.
///
/// An episode is forgotten once `kept` steps came after its last one. An item that was not drawn by
/// then counts as never drawn, although a remover may have kept it.
class Arrivals {
 public:
  /// `allowed`: the age from which on an item is too old.
  Arrivals(const Episodes& episodes, const WindowRule& rule, std::uint64_t kept,
           std::uint64_t allowed)
      : episodes_(episodes), rule_(rule), kept_(kept), allowed_(allowed) {}

  /// Acquire; partner: add. What was counted is in the buffer.
  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }

  /// The first step of an episode is about to be committed.
  void begin(const StepName& step);
  /// The step was committed. The steps of an episode come in order.
  void add(const StepName& step);

  /// Marks the items of a batch as drawn. `since`: the count before the draw.
  void draw(CheckedItems items, std::uint64_t since);
  /// Items drawn since the last call. Their ages are the steps that came after them and before the
  /// draw, `kept` for all that are forgotten.
  struct Ages {
    std::uint64_t items = 0;
    std::uint64_t too_old = 0;
    std::uint64_t oldest = 0;  ///< The age.
  };
  [[nodiscard]] Ages take_ages() {
    const std::lock_guard lock(ages_mutex_);
    return std::exchange(ages_, {});
  }

  /// A sampler completed a pass that began when there were `since` steps or more.
  void passed(std::uint64_t since) noexcept { raise(last_pass_, since); }
  [[nodiscard]] std::uint64_t last_pass() const noexcept {
    return last_pass_.load(std::memory_order_relaxed);
  }

  /// Items that have left, and how many of them were never drawn.
  struct Gone {
    std::uint64_t items = 0;
    std::uint64_t never_drawn = 0;
  };
  /// Items in the buffer, and items that have left.
  struct Items {
    bool all = true;  ///< False: of many steps only some were looked for.
    std::uint64_t there = 0;
    std::uint64_t oldest = 0;  ///< Its age.
    /// The count with which the first one was decided that was not drawn.
    std::uint64_t first_undrawn = std::numeric_limits<std::uint64_t>::max();
    Gone gone;
  };
  /// Looks for the items while nobody moves; `holds(episode, position)` tells whether one is there.
  template <class Holds>
  [[nodiscard]] Items look(Holds holds) const {
    Items items;
    const std::uint64_t now = count();
    const std::uint64_t stride = 1 + std::min(now, kept_) / kLooks;
    std::uint64_t at = 0;
    items.all = stride == 1;
    for (const Stripe& stripe : stripes_) {
      const std::lock_guard lock(stripe.mutex);
      items.gone.items += stripe.gone.items;
      items.gone.never_drawn += stripe.gone.never_drawn;
      for (const auto& [id, episode] : stripe.episodes) {
        for (std::size_t i = 0; i < episode.arrived.size(); ++i) {
          const std::size_t decides = i + rule_.reach() - 1;
          const bool decided = decides < episode.arrived.size();
          if (at++ % stride != 0) {
            continue;
          }
          if (holds(id, episode.first + i)) {
            ++items.there;
            items.oldest = std::max(items.oldest, now - episode.arrived[i]);
            if (decided && !episode.drawn[i]) {
              items.first_undrawn = std::min(items.first_undrawn, episode.arrived[decides]);
            }
          } else if (decided) {
            count_gone(episode, i, items.gone);
          }
        }
      }
    }
    return items;
  }

 private:
  /// The most steps that `look` looks for, about.
  static constexpr std::uint64_t kLooks = std::uint64_t{1} << 14U;

  struct Steps {
    std::uint32_t writer = 0;
    std::uint32_t number = 0;            ///< Number of the episode.
    std::uint32_t first = 0;             ///< Position of the first step here.
    std::vector<std::uint64_t> arrived;  ///< The count with each step.
    std::vector<bool> drawn;             ///< May be ahead of `arrived` by a step.
  };
  struct alignas(64) Stripe {
    mutable std::mutex mutex;
    // Guarded by the mutex.
    std::unordered_map<std::uint64_t, Steps> episodes;  ///< By id.
    std::deque<std::uint64_t> order;                    ///< In which they began.
    Gone gone;
  };

  [[nodiscard]] Stripe& stripe_of(std::uint64_t episode) noexcept {
    return stripes_[mix(episode) % stripes_.size()];
  }
  static Steps& steps_of(Stripe& stripe, const StepName& step);
  void count_gone(const Steps& episode, std::size_t i, Gone& gone) const;
  void forget(Stripe& stripe, std::uint64_t now);

  const Episodes& episodes_;
  const WindowRule& rule_;
  const std::uint64_t kept_;
  const std::uint64_t allowed_;
  std::atomic<std::uint64_t> count_ = 0;
  std::atomic<std::uint64_t> last_pass_ = 0;
  std::mutex ages_mutex_;
  Ages ages_;  // Guarded by ages_mutex_.
  std::array<Stripe, 64> stripes_;
};

}  // namespace stress
