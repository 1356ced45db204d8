#pragma once

#include "base/sync.hpp"
#include "storage/free_list.hpp"

#include <cstdint>

namespace reprise::storage {

/// Where an episode goes on that did not end in its chunk: the slot of its next step, in the next
/// chunk that its writer got.
///
/// The writer knows that slot only after it has let go of the chunk, when another writer may have
/// the chunk already. So it leaves the step's mark before that, and later replaces the word only if
/// it still has this mark. A word stays until the next one: it may be of an earlier use of the
/// chunk, or name a slot whose chunk was used again. So readers check the step that they find in
/// the slot.
///
/// Progress: wait-free; `resolve` is lock-free. Relaxed throughout: the word publishes no data. The
/// slot is read under a lock, which does.
class Sequel {
 public:
  /// The mark of a step. No two steps of an episode have the same.
  [[nodiscard]] static std::uint32_t mark(std::uint64_t episode, std::uint64_t position) noexcept {
    return static_cast<std::uint32_t>((episode * 0x9E3779B97F4A7C15U >> 32U) + position);
  }
  [[nodiscard]] static std::uint64_t word(std::uint32_t mark, std::uint32_t slot) noexcept {
    return std::uint64_t{mark} << 32U | slot;
  }

  /// Notes that the episode goes on with the step of this mark. Only the chunk's writer.
  void expect(std::uint32_t mark) noexcept { word_.store(word(mark, kNil), base::Order::Relaxed); }
  /// Sets the slot of the step of this mark. Does nothing if the word has changed since `expect`.
  void resolve(std::uint32_t mark, std::uint32_t slot) noexcept {
    const std::uint64_t awaited = word(mark, kNil);
    std::uint64_t now = awaited;
    while (now == awaited && !word_.compare_exchange(now, word(mark, slot), base::Order::Relaxed,
                                                     base::Order::Relaxed)) {
    }
  }

  [[nodiscard]] std::uint64_t word() const noexcept { return word_.load(base::Order::Relaxed); }
  /// The slot of the step of this mark, if `resolve` was called for it, or kNil.
  [[nodiscard]] std::uint32_t slot(std::uint32_t mark) const noexcept {
    const std::uint64_t now = word();
    return now >> 32U == mark ? static_cast<std::uint32_t>(now) : kNil;
  }

 private:
  base::StdSync::Atomic<std::uint64_t> word_{kNil};
};

}  // namespace reprise::storage
