#include "draw_ledger.hpp"

#include <reprise/item_key.hpp>

#include "drawn.hpp"
#include "findings.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>

namespace stress {
namespace {

/// Whether the first key's item was in their place before the other key's item.
bool is_older(std::uint64_t key, std::uint64_t than) {
  constexpr std::uint32_t kMask = reprise::ItemKey::kGenerationMask;
  const std::uint32_t ahead =
      (reprise::ItemKey{than}.generation() - reprise::ItemKey{key}.generation()) & kMask;
  return ahead != 0 && ahead <= kMask / 2;
}

}  // namespace

void DrawLedger::go_on_from(const DrawLedger& saved) {
  const std::scoped_lock lock(mutex_, saved.mutex_);
  entries_ = saved.entries_;
  fresh_ = saved.fresh_;
  loaded_ = true;
}

void DrawLedger::count(const Drawn& drawn, std::span<const Judged> judged) {
  if (most_ == 0 && fresh_.empty()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  for (const std::uint64_t key : drawn.keys.first(drawn.fresh)) {
    if (std::exchange(fresh_[static_cast<std::uint32_t>(key)], key) == key) {
      findings_.add(Finding::WrongOrder, "key " + std::to_string(key) + " is fresh twice");
    }
  }
  for (std::size_t i = 0; most_ != 0 && i < drawn.size; ++i) {
    const std::uint64_t key = drawn.keys[i];
    Entry& entry = entries_[static_cast<std::uint32_t>(key)];
    // A learner may count a draw of the older item after another learner has counted one of the
    // newer item; such a draw is left out. In a loaded buffer only one learner draws, and
    // generations do not tell which item is older.
    const bool late = !loaded_ && entry.draws != 0 && is_older(key, entry.key);
    if (!judged[i].legible || late) {
      continue;
    }
    if (entry.draws == 0 || entry.key != key) {
      entry = {key, judged[i].hash, 0};
    }
    if (entry.identity != judged[i].hash) {
      findings_.add(Finding::WrongWindow, "key " + std::to_string(key) + " names two items");
    }
    if (++entry.draws > most_) {
      findings_.add(Finding::DrawnTooOften, "key " + std::to_string(key) + ": " +
                                                std::to_string(entry.draws) + " times, of " +
                                                std::to_string(most_) + " allowed");
    }
  }
}

std::size_t DrawLedger::exhausted(std::span<const std::uint64_t> keys) const {
  if (most_ == 0) {
    return 0;
  }
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(keys.begin(), keys.end(), [&](std::uint64_t key) {
    const Entry& entry = entries_[static_cast<std::uint32_t>(key)];
    return entry.key == key && entry.draws >= most_;
  }));
}

}  // namespace stress
