#pragma once

#include "base/sync.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace reprise::storage {

/// Stands for no chunk.
inline constexpr std::uint32_t kNil = 0xffffffffU;

/// Plain memory that changes hands through the atomics around it, so that only its owner touches
/// it. A checker specialises it for its own policy and reports other accesses.
template <class Sync, class T>
class Owned {
 public:
  explicit Owned(T value) noexcept : value_(std::move(value)) {}

  [[nodiscard]] T get() const noexcept { return value_; }
  void set(T value) noexcept { value_ = std::move(value); }

 private:
  T value_;
};

/// A stack of chunk numbers linked through an array of the caller. Any thread.
///
/// Progress: lock-free. Last in, first out, so that memory in use stays warm and fresh memory stays
/// untouched. The head has a 32-bit tag that every pop advances, so a pop that was overtaken by a
/// pop and a push of the same chunk fails (no ABA within 2^32 pops).
template <class Sync>
class FreeList {
 public:
  using Link = typename Sync::template Atomic<std::uint32_t>;

  /// links(chunk) returns the link of a chunk. Ownership of the chunk, with everything written to
  /// it, passes to the thread that pops it.
  template <class Links>
  void push(std::uint32_t chunk, Links links) noexcept {
    // Relaxed: a stale head only makes the exchange fail.
    std::uint64_t head = head_.load(base::Order::Relaxed);
    do {
      // Relaxed: published by the exchange below.
      links(chunk).store(static_cast<std::uint32_t>(head), base::Order::Relaxed);
      // F1: release; partner: the acquire in pop.
    } while (!head_.compare_exchange(head, (head & kTagBits) | chunk, base::Order::Release,
                                     base::Order::Relaxed));
  }

  /// Takes the chunk that was pushed last; kNil if the list is empty.
  template <class Links>
  std::uint32_t pop(Links links) noexcept {
    // F1: acquire, also on failure, because the link of the head is read next; partner: push.
    std::uint64_t head = head_.load(base::Order::Acquire);
    while (static_cast<std::uint32_t>(head) != kNil) {
      // Relaxed: the link may be stale if the chunk was popped meanwhile; then the tag differs
      // and the exchange fails.
      const std::uint32_t below =
          links(static_cast<std::uint32_t>(head)).load(base::Order::Relaxed);
      // Relaxed on success: with its tag the head never has the same value twice, so the exchange
      // replaces the push that was acquired.
      if (head_.compare_exchange(head, ((head & kTagBits) + kTagOne) | below, base::Order::Relaxed,
                                 base::Order::Acquire)) {
        return static_cast<std::uint32_t>(head);
      }
    }
    return kNil;
  }

  /// Writes the chunks from the top down, as many as there is room for; empty if another thread
  /// pops during the call. A hint: they may be taken before this returns.
  template <class Links>
  [[nodiscard]] std::span<std::uint32_t> list(std::span<std::uint32_t> into,
                                              Links links) const noexcept {
    // F1: acquire, for the links; partner: push.
    const std::uint64_t head = head_.load(base::Order::Acquire);
    std::size_t count = 0;
    for (auto chunk = static_cast<std::uint32_t>(head); chunk != kNil && count < into.size();
         // Acquire, so that the head is read after it; if the chunk was popped, the head's tag
         // differs.
         chunk = links(chunk).load(base::Order::Acquire)) {
      into[count++] = chunk;
    }
    // Relaxed: it guards no data.
    return into.first(head_.load(base::Order::Relaxed) == head ? count : 0);
  }

 private:
  static constexpr std::uint64_t kTagOne = std::uint64_t{1} << 32U;
  static constexpr std::uint64_t kTagBits = ~std::uint64_t{0} << 32U;

  alignas(base::kCacheLine) typename Sync::template Atomic<std::uint64_t> head_{kNil};
};

/// Hands out chunks that were never used, each once, lowest first. Any thread, lock-free.
template <class Sync>
class FreshChunks {
 public:
  /// The next chunk below `limit`; kNil if all have been handed out.
  std::uint32_t take(std::uint32_t limit) noexcept {
    // Relaxed: only the number decides who gets the chunk, and nobody has written to it before.
    std::uint32_t next = taken_.load(base::Order::Relaxed);
    while (next < limit) {
      if (taken_.compare_exchange(next, next + 1, base::Order::Relaxed, base::Order::Relaxed)) {
        return next;
      }
    }
    return kNil;
  }

  /// Marks the first `taken` chunks as handed out. Relaxed: no other thread uses this object yet.
  void restore(std::uint32_t taken) noexcept { taken_.store(taken, base::Order::Relaxed); }

  /// Relaxed: a count for statistics and hints.
  [[nodiscard]] std::uint32_t taken() const noexcept { return taken_.load(base::Order::Relaxed); }

 private:
  alignas(base::kCacheLine) typename Sync::template Atomic<std::uint32_t> taken_{0};
};

}  // namespace reprise::storage
