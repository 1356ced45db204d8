#pragma once

#include "storage/doorbell.hpp"

#include <cstdint>

namespace reprise::storage {

/// Chunks taken from the doorbell list and not answered yet, in the order in which they rang. It
/// reuses the list's links, which are the lock holder's from `take_all` until the bell is answered.
/// Every call needs the shard's lock.
template <class Sync>
class Backlog {
 public:
  [[nodiscard]] bool empty() const noexcept { return oldest_ == kNil; }

  /// Moves the whole doorbell list behind what is here already.
  template <class Bells>
  void take(DoorbellList<Sync>& list, Bells bells) noexcept {
    const std::uint32_t latest = list.take_all();
    std::uint32_t first = kNil;
    for (std::uint32_t chunk = latest; chunk != kNil;) {
      const std::uint32_t rung_before = bells(chunk).next.get();
      bells(chunk).next.set(first);
      first = chunk;
      chunk = rung_before;
    }
    if (first == kNil) {
      return;
    }
    if (empty()) {
      oldest_ = first;
    } else {
      bells(latest_).next.set(first);
    }
    latest_ = latest;
  }

  /// Takes out the oldest and answers its bell. Not if empty.
  template <class Bells>
  News answer_oldest(Bells bells) noexcept {
    const std::uint32_t chunk = oldest_;
    // The link is read before the bell is cleared: from then on the chunk may be pushed again.
    oldest_ = bells(chunk).next.get();
    const Answer news = answer(bells(chunk));
    return {chunk, news.published, news.closed};
  }

 private:
  std::uint32_t oldest_ = kNil;
  std::uint32_t latest_ = kNil;  ///< Meaningless if empty.
};

}  // namespace reprise::storage
