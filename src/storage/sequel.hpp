#pragma once

#include "base/sync.hpp"
#include "storage/free_list.hpp"

#include <cstdint>

namespace reprise::storage {

/// A link from a chunk to the next one of its writer, for an episode that did not end in the chunk:
/// the slot of the episode's next step.
///
/// The writer knows that slot only after it has given the chunk up, when another writer may have
/// the chunk already. So before that the writer notes the step's mark, and later it adds the slot
/// only if the word still has this mark. A word stays until the next one replaces it. It may come
/// from an earlier use of the chunk, or name a slot whose chunk has been used again, so readers
/// check the step that they find in the slot.
///
/// Progress: wait-free; `resolve` is lock-free. Relaxed throughout: the word publishes no data. The
/// row in the slot is read under the lock of its shard, which publishes the row.
class Sequel {
 public:
  /// The mark of a step. No two steps of an episode have the same mark.
  [[nodiscard]] static std::uint32_t mark(std::uint64_t episode, std::uint64_t position) noexcept {
    return static_cast<std::uint32_t>((episode * 0x9E3779B97F4A7C15U >> 32U) + position);
  }
  [[nodiscard]] static std::uint64_t word(std::uint32_t mark, std::uint32_t slot) noexcept {
    return std::uint64_t{mark} << 32U | slot;
  }

  /// Notes that the episode goes on with the step of this mark. Only the chunk's writer calls it.
  void expect(std::uint32_t mark) noexcept { word_.store(word(mark, kNil), base::Order::Relaxed); }
  /// Adds the slot of the step of this mark. Does nothing if the word has changed since `expect`.
  void resolve(std::uint32_t mark, std::uint32_t slot) noexcept {
    const std::uint64_t expected = word(mark, kNil);
    std::uint64_t current = expected;
    while (current == expected &&
           !word_.compare_exchange(current, word(mark, slot), base::Order::Relaxed,
                                   base::Order::Relaxed)) {
    }
  }

  [[nodiscard]] std::uint64_t word() const noexcept { return word_.load(base::Order::Relaxed); }
  /// The slot of the step of this mark, if `resolve` was called for it, or kNil.
  [[nodiscard]] std::uint32_t slot(std::uint32_t mark) const noexcept {
    const std::uint64_t current = word();
    return current >> 32U == mark ? static_cast<std::uint32_t>(current) : kNil;
  }

 private:
  base::StdSync::Atomic<std::uint64_t> word_{kNil};
};

}  // namespace reprise::storage
