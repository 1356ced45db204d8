#pragma once

#include "checks/drawn.hpp"
#include "checks/testing.hpp"
#include "testing/library.hpp"

#include <deque>
#include <unordered_map>

namespace stress {

/// Raises a maximum to at least `to`. Relaxed: the maximum is read for display, or while all
/// threads stand still.
inline void atomic_max(std::atomic<std::uint64_t>& maximum, std::uint64_t to) noexcept {
  std::uint64_t seen = maximum.load(std::memory_order_relaxed);
  while (seen < to && !maximum.compare_exchange_weak(seen, to, std::memory_order_relaxed)) {
  }
}

/// Records when each step arrived, measured by the number of steps that all writers had committed,
/// and whether the item that begins with it was drawn. From this follow the ages of items, and
/// which items were never drawn. Any thread. A step is counted after its commit, so steps counted
/// after an item were also committed after it, except for at most one step of each writer. Steps of
/// guests are left out, because they arrive some time after their commit.
///
/// An episode is forgotten once `kept` steps arrived after its last step. An item that was not
/// drawn by then counts as never drawn, although a remover may keep the item and a sampler may draw
/// it.
class Arrivals {
 public:
  /// `allowed`: the greatest age, in steps, of an item that is not too old.
  Arrivals(const Episodes& episodes, const WindowRule& rule, std::uint64_t kept,
           std::uint64_t allowed)
      : episodes_(episodes), rule_(rule), retention_steps_(kept), max_age_(allowed) {}

  /// Number of steps counted so far. All of them had been committed. Acquire; partner: add.
  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }

  /// Call it before the first step of an episode is committed.
  void begin(const StepName& step);
  /// Counts a committed step. The steps of an episode come in order.
  void add(const StepName& step);

  /// Marks the items of a batch as drawn; `since` is the count before the draw.
  void draw(CheckedItems items, std::uint64_t since);
  /// Items drawn since the last call, and their ages. An age is the number of steps that arrived
  /// between the item and the draw, or `kept` for items that are forgotten.
  struct Ages {
    std::uint64_t items = 0;
    std::uint64_t too_old = 0;
    std::uint64_t oldest = 0;  ///< The greatest age, in steps.
  };
  [[nodiscard]] Ages take_ages() {
    const std::lock_guard lock(ages_mutex_);
    return std::exchange(ages_, {});
  }

  /// Notes that a sampler completed a pass, which began when at least `since` steps had arrived.
  void pass_completed(std::uint64_t since) noexcept { atomic_max(last_pass_, since); }
  [[nodiscard]] std::uint64_t last_pass() const noexcept {
    return last_pass_.load(std::memory_order_relaxed);
  }

  /// Items that have left, and how many of them were never drawn.
  struct EvictedItems {
    std::uint64_t items = 0;
    std::uint64_t never_drawn = 0;
  };
  /// Items in the buffer, and items that have left.
  struct Items {
    bool all = true;  ///< Whether each item was looked up; if there are too many, only some are.
    std::uint64_t present = 0;
    std::uint64_t oldest = 0;  ///< The greatest age, in steps.
    /// The count at which the window of an item in the buffer was complete, of those never drawn
    /// the least.
    std::uint64_t first_undrawn = std::numeric_limits<std::uint64_t>::max();
    EvictedItems gone;
  };
  /// Looks the items up while no call is under way. `holds(episode, position)` returns whether the
  /// buffer has the item that begins with this step.
  template <class Holds>
  [[nodiscard]] Items scan(Holds holds) const {
    Items items;
    const std::uint64_t now = count();
    const std::uint64_t stride = 1 + std::min(now, retention_steps_) / kLooks;
    std::uint64_t at = 0;
    items.all = stride == 1;
    for (const Stripe& stripe : stripes_) {
      const std::lock_guard lock(stripe.mutex);
      items.gone.items += stripe.gone.items;
      items.gone.never_drawn += stripe.gone.never_drawn;
      for (const auto& [id, episode] : stripe.episodes) {
        for (std::size_t i = 0; i < episode.arrived.size(); ++i) {
          const std::size_t decides = i + rule_.full_length() - 1;
          const bool decided = decides < episode.arrived.size();
          if (at++ % stride != 0) {
            continue;
          }
          if (holds(id, episode.first + i)) {
            ++items.present;
            items.oldest = std::max(items.oldest, now - episode.arrived[i]);
            if (decided && !episode.drawn[i]) {
              items.first_undrawn = std::min(items.first_undrawn, episode.arrived[decides]);
            }
          } else if (decided) {
            count_evicted(episode, i, items.gone);
          }
        }
      }
    }
    return items;
  }

 private:
  /// `scan` looks up at most about this many steps.
  static constexpr std::uint64_t kLooks = std::uint64_t{1} << 14U;

  struct Steps {
    std::uint32_t writer = 0;
    std::uint32_t number = 0;            ///< Number of the episode.
    std::uint32_t first = 0;             ///< Position of the first step of `arrived`.
    std::vector<std::uint64_t> arrived;  ///< The count after each step arrived.
    std::vector<bool> drawn;             ///< Whether a draw had the item of each step.
  };
  struct alignas(64) Stripe {
    mutable std::mutex mutex;
    // The mutex guards the members below.
    std::unordered_map<std::uint64_t, Steps> episodes;  ///< By id.
    std::deque<std::uint64_t> order;  ///< Ids in the order in which the episodes began.
    EvictedItems gone;
  };

  [[nodiscard]] Stripe& stripe_of(std::uint64_t episode) noexcept {
    return stripes_[mix(episode) % stripes_.size()];
  }
  static Steps& steps_of(Stripe& stripe, const StepName& step);
  void count_evicted(const Steps& episode, std::size_t i, EvictedItems& gone) const;
  void forget(Stripe& stripe, std::uint64_t now);

  const Episodes& episodes_;
  const WindowRule& rule_;
  const std::uint64_t retention_steps_;
  const std::uint64_t max_age_;
  std::atomic<std::uint64_t> count_ = 0;
  std::atomic<std::uint64_t> last_pass_ = 0;
  std::mutex ages_mutex_;
  Ages ages_;  // Guarded by ages_mutex_.
  std::array<Stripe, 64> stripes_;
};

}  // namespace stress
