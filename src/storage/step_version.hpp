#pragma once

#include "base/sync.hpp"

#include <cstdint>

namespace reprise::storage {

/// Keeps the mutable values of one step consistent: a reader gets all values of one write, not
/// parts of two.
///
/// The version is odd while a thread writes. Every word of a value is stored by `put` and loaded by
/// `get`, whose release and acquire take the place of fences. Zeroed memory is a valid version, in
/// which no thread writes.
///
/// Progress: no method waits. `try_write` and `try_read` return false only because another thread
/// writes the same step; the caller tries again once that thread has gone on.
template <class Sync>
class StepVersion {
 public:
  /// Calls `store`, which puts the words. If another thread writes, does nothing and returns false.
  template <class Store>
  [[nodiscard]] bool try_write(Store store) noexcept {
    // Relaxed: a stale version fails the exchange.
    std::uint32_t version = word_.load(base::Order::Relaxed);
    // V1: acquire; partner: the release below, of the write before, so that this write stores every
    // word after that one did. Relaxed on failure: nothing is done then.
    if ((version & kWriting) != 0 ||
        !word_.compare_exchange(version, version + kWriting, base::Order::Acquire,
                                base::Order::Relaxed)) {
      return false;
    }
    store();
    // V1: release; partners: the acquires of try_read and of the next write.
    word_.store(version + 2 * kWriting, base::Order::Release);
    return true;
  }

  /// Calls `load`, which reads the words. Returns false if the words may belong to two writes.
  template <class Load>
  [[nodiscard]] bool try_read(Load load) const noexcept {
    // V1: acquire; partner: the release of try_write. No word is older than this version.
    const std::uint32_t before = word_.load(base::Order::Acquire);
    if ((before & kWriting) != 0) {
      return false;
    }
    load();
    // Relaxed: a thread that got a word of a later write (V2) sees the odd version of that write or
    // a later one.
    return word_.load(base::Order::Relaxed) == before;
  }

  /// V2: release; partner: get. Whoever gets the word sees the odd version before it.
  template <class Word>
  static void put(Word&& word, std::uint64_t value) noexcept {
    word.store(value, base::Order::Release);
  }
  /// V2: acquire; partner: put.
  template <class Word>
  [[nodiscard]] static std::uint64_t get(const Word& word) noexcept {
    return word.load(base::Order::Acquire);
  }

  /// A number that rises with each write, and wraps. Relaxed: if two calls return equal numbers,
  /// nothing was written between them, provided that other means order the writes and the calls.
  [[nodiscard]] std::uint32_t number() const noexcept { return word_.load(base::Order::Relaxed); }

 private:
  static constexpr std::uint32_t kWriting = 1;
  typename Sync::template Atomic<std::uint32_t> word_{0};
};

}  // namespace reprise::storage
