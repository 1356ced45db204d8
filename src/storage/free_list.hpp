#pragma once

#include "base/sync.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace reprise::storage {

/// Stands for no chunk.
inline constexpr std::uint32_t kNil = 0xffffffffU;

/// Plain memory that only its owner touches; ownership passes through atomics beside it. A model
/// checker specialises this class for its own `Sync`, to report accesses by other threads.
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
/// Progress: lock-free. Last in, first out, so that memory in use stays in the caches and fresh
/// memory stays untouched. The head has a 32-bit tag that every pop advances. So if another thread
/// pops and pushes the same chunk during a pop, the pop's exchange fails and it tries again (no ABA
/// within 2^32 pops).
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

  /// Writes the chunks of the list, the next to be popped first, as many as there is room for. The
  /// result is a hint, as chunks may be popped before this returns; it is empty if another thread
  /// pops during the call.
  template <class Links>
  [[nodiscard]] std::span<std::uint32_t> list(std::span<std::uint32_t> chunks,
                                              Links links) const noexcept {
    // F1: acquire, for the links; partner: push.
    const std::uint64_t head = head_.load(base::Order::Acquire);
    std::size_t count = 0;
    for (auto chunk = static_cast<std::uint32_t>(head); chunk != kNil && count < chunks.size();
         // Acquire, so that the head is read after the link: if the chunk was popped meanwhile, the
         // head's tag differs.
         chunk = links(chunk).load(base::Order::Acquire)) {
      chunks[count++] = chunk;
    }
    // Relaxed: only compared, and guards no data.
    return chunks.first(head_.load(base::Order::Relaxed) == head ? count : 0);
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
