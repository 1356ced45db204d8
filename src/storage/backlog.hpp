#pragma once

#include "storage/doorbell.hpp"

#include <cstdint>

namespace reprise::storage {

/// Chunks taken from the doorbell list and not answered yet; the chunk that rang first comes first.
/// It reuses the links of the list, which belong to the lock holder from `take_all` until the bell
/// is answered. Every call needs the shard's lock.
template <class Sync>
class Backlog {
 public:
  [[nodiscard]] bool empty() const noexcept { return oldest_ == kNil; }

  /// Moves the whole doorbell list behind the chunks that are here already.
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

  /// Removes the oldest chunk and answers its bell. The backlog must not be empty.
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
