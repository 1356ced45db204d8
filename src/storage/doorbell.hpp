#pragma once

#include "base/sync.hpp"
#include "storage/free_list.hpp"

#include <cstdint>

namespace reprise::storage {

/// Values of a bell's word. A writer's last ring also closes the chunk, in the same word: if the
/// ingester takes *closed* out of the word, no later ring can come, and the writer has given the
/// chunk up. (A separate flag would be wrong: a writer that stalls between its last publish and its
/// ring could meet its chunk again in another writer's hands.)
inline constexpr std::uint32_t kRung = 1;
inline constexpr std::uint32_t kClosed = 2;

/// The turn of a chunk that has not rung yet.
inline constexpr std::uint64_t kNoTurn = ~std::uint64_t{0};
/// A stamp for `DoorbellList::ring` that leaves the turn as it is.
struct KeepTurn {
  std::uint64_t operator()(std::uint64_t turn) const noexcept { return turn; }
};

/// The words of a chunk that its writer shares with the thread that ingests.
template <class Sync>
struct Bell {
  /// Rows decided so far; only rises, until the chunk is retired.
  typename Sync::template Atomic<std::uint32_t> published{0};
  /// 0, kRung, or kRung | kClosed.
  typename Sync::template Atomic<std::uint32_t> word{0};
  /// Link in the doorbell list. It belongs to the thread that turned `word` from 0 until the push,
  /// then to the thread that took the list until the bell is answered.
  Owned<Sync, std::uint32_t> next{kNil};
  /// The place of the chunk in the eviction order, set before the push. It has the same owner as
  /// `next`.
  Owned<Sync, std::uint64_t> turn{kNoTurn};
};

/// The chunks that have rung: an intrusive list, to which any number of writers push, and from
/// which one thread at a time takes (the holder of the shard's lock, who ingests).
///
/// Progress: `ring` is lock-free. It pushes only if the chunk is not in the list already, so many
/// commits to a busy shard cost one list operation. The list allocates nothing and is never full.
/// It has no ABA problem, because `take_all` takes every chunk.
template <class Sync>
class DoorbellList {
 public:
  /// Announces the rows that the chunk's writer has published. `value` is kRung, or kRung | kClosed
  /// for a writer's last ring, after which it must not touch the chunk. `stamp` returns the chunk's
  /// turn, given the turn that it had before. Returns whether the chunk was pushed; then the caller
  /// has to look for sleeping samplers. The next stop of the data path is `LockedShard::ingest`.
  template <class Bells, class Stamp = KeepTurn>
  bool ring(std::uint32_t chunk, std::uint32_t value, Bells bells, Stamp stamp = {}) noexcept {
    // B2: acq_rel; partner: the exchange in answer. Release: if the exchange returns non-zero, the
    // answer that clears the word comes later, and sees everything published before this ring.
    // Acquire: if it returns 0, the link belongs to this thread, and the link's last reader is
    // done.
    if (bells(chunk).word.exchange(value, base::Order::AcqRel) != 0) {
      return false;
    }
    bells(chunk).turn.set(stamp(bells(chunk).turn.get()));
    // Relaxed: a stale head only makes the exchange fail.
    std::uint32_t head = head_.load(base::Order::Relaxed);
    do {
      bells(chunk).next.set(head);
      // B3: acq_rel; partner: the exchange in take_all. Release for the link. Acquire: if a
      // registered sleeper's take_all missed this push, this thread sees the registration (E1).
    } while (!head_.compare_exchange(head, chunk, base::Order::AcqRel, base::Order::Relaxed));
    return true;
  }

  /// Takes every chunk, latest first, linked through `Bell::next`. Lock held.
  /// B3: acq_rel; partner: ring. Acquire for the links. Release: if this is the last look of a
  /// registered sleeper, whoever pushes later sees the registration (E1).
  std::uint32_t take_all() noexcept { return head_.exchange(kNil, base::Order::AcqRel); }

  /// Whether the list has a chunk. Relaxed: a hint; a thread about to sleep calls take_all instead.
  [[nodiscard]] bool maybe_rung() const noexcept {
    return head_.load(base::Order::Relaxed) != kNil;
  }

 private:
  alignas(base::kCacheLine) typename Sync::template Atomic<std::uint32_t> head_{kNil};
};

/// What the thread that ingests reads when it answers a bell.
struct Answer {
  std::uint32_t published;
  bool closed;
};

/// An `Answer` together with the chunk and its turn.
struct News {
  std::uint32_t chunk;
  std::uint32_t published;
  bool closed;
  std::uint64_t turn;
};

/// Answers the bell of a chunk that was taken from the list. The chunk's link must have been read
/// before, because from now on the chunk may be pushed again. The bell is cleared before
/// `published` is read, so a commit is either seen here or rings again. Lock held.
template <class Sync>
Answer answer(Bell<Sync>& bell) noexcept {
  // B2: acq_rel; partner: the exchange in ring. Acquire for the rows published before it; release
  // gives the link back.
  const std::uint32_t word = bell.word.exchange(0, base::Order::AcqRel);
  // B1: acquire; partner: the release in publish. The rows below it are complete (I1, I3).
  return {bell.published.load(base::Order::Acquire), (word & kClosed) != 0};
}

/// Makes rows [0, published) and their priorities visible. Only the chunk's writer calls it. The
/// next stop of the data path is `DoorbellList::ring`.
template <class Sync>
void publish(Bell<Sync>& bell, std::uint32_t published) noexcept {
  // B1: release; partner: the acquire in answer.
  bell.published.store(published, base::Order::Release);
}

/// The chunks that were taken from the doorbell list and whose bells are not answered yet, the one
/// that rang first at the front. Chunks stay linked by the links of the list, which belong to the
/// lock holder from `take_all` until the bell is answered. Every call needs the shard's lock.
template <class Sync>
class Backlog {
 public:
  [[nodiscard]] bool empty() const noexcept { return oldest_ == kNil; }

  /// Appends the whole doorbell list to the chunks of the backlog.
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
    // Link and turn are read before `answer` clears the bell, after which the chunk may be pushed
    // again.
    oldest_ = bells(chunk).next.get();
    const std::uint64_t turn = bells(chunk).turn.get();
    const Answer news = answer(bells(chunk));
    return {chunk, news.published, news.closed, turn};
  }

 private:
  std::uint32_t oldest_ = kNil;
  std::uint32_t latest_ = kNil;  ///< Meaningless while the backlog is empty.
};

}  // namespace reprise::storage
