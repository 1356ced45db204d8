#include "checks/draw_counts.hpp"

#include <reprise/item.hpp>

#include "testing/library.hpp"

namespace stress {
namespace {

/// Whether the item of `key` was in the slot before the item of `than`.
bool is_older(reprise::ItemKey key, reprise::ItemKey than) {
  constexpr std::uint32_t kMask = reprise::ItemKey::kGenerationMask;
  const std::uint32_t ahead = (than.generation() - key.generation()) & kMask;
  return ahead != 0 && ahead <= kMask / 2;
}

}  // namespace

void DrawCounts::continue_from(const DrawCounts& saved) {
  const std::scoped_lock lock(mutex_, saved.mutex_);
  entries_ = saved.entries_;
  fresh_ = saved.fresh_;
  loaded_ = true;
}

void DrawCounts::count(const Drawn& drawn, CheckedItems items) {
  if (max_draws_ == 0 && fresh_.empty()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  for (const reprise::ItemKey key : drawn.keys().first(drawn.fresh)) {
    if (std::exchange(fresh_[key.slot()], key) == key) {
      findings_.add(Finding::WrongOrder, describe_key(key) + " is fresh twice");
    }
  }
  for (std::size_t i = 0; max_draws_ != 0 && i < drawn.size(); ++i) {
    const reprise::ItemKey key = drawn.keys()[i];
    Entry& entry = entries_[key.slot()];
    // A learner may count a draw of the older item after another learner has counted one of the
    // newer item; such a draw is left out. In a loaded buffer only one learner draws, and
    // generations do not tell which item is older.
    const bool late = !loaded_ && entry.draws != 0 && is_older(key, entry.key);
    if (!items[i].correct || late) {
      continue;
    }
    if (entry.draws == 0 || entry.key != key) {
      entry = {key, items[i].hash, 0};
    }
    if (entry.hash != items[i].hash) {
      findings_.add(Finding::WrongWindow, describe_key(key) + " names two items");
    }
    if (++entry.draws > max_draws_) {
      findings_.add(Finding::DrawnTooOften, describe_key(key) + ": " + std::to_string(entry.draws) +
                                                " times, of " + std::to_string(max_draws_) +
                                                " allowed");
    }
  }
}

std::size_t DrawCounts::exhausted(std::span<const reprise::ItemKey> keys) const {
  if (max_draws_ == 0) {
    return 0;
  }
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(keys.begin(), keys.end(), [&](reprise::ItemKey key) {
        const Entry& entry = entries_[key.slot()];
        return entry.key == key && entry.draws >= max_draws_;
      }));
}

}  // namespace stress
