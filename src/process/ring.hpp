#pragma once

#include "base/divider.hpp"
#include "base/sync.hpp"
#include "buffer/format.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace reprise::process {

using base::Order;

/// How far the guest and the host are in the ring of one environment. Rows are numbered from 0, and
/// row r lies in place r % rows. The guest writes `published`, the host `consumed`.
template <class Sync>
class RingWords {
 public:
  /// Guest. R1: release; partner: published. Rows below `rows` are complete: the columns of each
  /// step, and the observation after it.
  void publish(std::uint64_t rows) noexcept { published_.store(rows, Order::Release); }
  /// Host. R1: acquire; partner: publish.
  [[nodiscard]] std::uint64_t published() const noexcept { return published_.load(Order::Acquire); }

  /// Host. R2: release, and R3: seq_cst, before the look at `Waiting`; partners: consumed,
  /// consumed_while_waiting. The guest may write rows below `rows` again.
  void consume(std::uint64_t rows) noexcept { consumed_.store(rows, Order::SeqCst); }
  /// Guest. R2: acquire; partner: consume. The host does not read rows below the result any more.
  [[nodiscard]] std::uint64_t consumed() const noexcept { return consumed_.load(Order::Acquire); }
  /// Guest, after `Waiting::begin`. R3: seq_cst; partner: consume.
  [[nodiscard]] std::uint64_t consumed_while_waiting() const noexcept {
    return consumed_.load(Order::SeqCst);
  }

 private:
  using Word = typename Sync::template Atomic<std::uint64_t>;
  alignas(base::kCacheLine) Word published_{0};
  alignas(base::kCacheLine) Word consumed_{0};
};

/// Whether the guest of a connection waits for room in one of its rings. The guest sets the flag
/// and looks for room once more; the host makes room and then looks at the flag (Dekker's pattern,
/// I11).
template <class Sync>
class Waiting {
 public:
  /// Guest. R3: seq_cst, before the last look for room; partner: take.
  void begin() noexcept { waits_.store(1, Order::SeqCst); }
  /// Host, after `consume`. Returns whether the guest waits, and clears the flag. R3: seq_cst;
  /// partner: begin. Relaxed store: if it clears the flag of a new wait, the message that follows
  /// wakes the guest, which then sets the flag again.
  [[nodiscard]] bool take() noexcept {
    const bool waits = waits_.load(Order::SeqCst) != 0;
    if (waits) {
      waits_.store(0, Order::Relaxed);
    }
    return waits;
  }

 private:
  typename Sync::template Atomic<std::uint32_t> waits_{0};
};

/// Why the host takes no more steps of a writer.
enum class HoldReason : std::uint32_t {
  No,
  ByLimiter,  ///< The rate limiter holds the writer, or no chunk is free.
  ByDisk,     ///< The disk of a mapped file is full.
};

/// The first bytes of a connection's memory. The rings follow.
struct SharedWords {
  alignas(base::kCacheLine) Waiting<base::StdSync> waiting;
  /// A value of `HoldReason`, written by the host. Relaxed, because it only decides which error a
  /// guest gets.
  alignas(base::kCacheLine) base::StdSync::Atomic<std::uint32_t> held{0};
};
static_assert(sizeof(SharedWords) == 2 * base::kCacheLine);

/// What the host has to know of a step, in a ring's row in the place of an item's header.
struct StepHeader {
  enum class Kind : std::uint8_t {
    Step,
    Cut,  ///< Not a step: the episode ended as truncated at the step before.
  };
  Kind kind = Kind::Step;
  std::uint8_t end = 0;    ///< A value of `End`.
  std::uint8_t first = 0;  ///< 1 if this step begins an episode: its own observation is new.
  std::uint8_t unused = 0;
  std::uint32_t priorities = 0;  ///< How many priorities the step brings.
  std::uint64_t zero = 0;
};
static_assert(sizeof(StepHeader) == sizeof(storage::ItemHeader));

/// The places in the memory of a writer's connection: the shared words, the words of each ring, and
/// the rings. A row of a ring is a row of the buffer (`RowLayout`), followed by the recurrent
/// states of its step and the priorities that the step brings. As in a chunk, a step has its
/// observation and columns in its own row, and the observation after it in the next row. So the row
/// after the last step of an episode has an observation but no step.
class RingLayout {
 public:
  /// `rows` is a power of two.
  RingLayout(const buffer::Format& format, std::size_t environments, std::size_t rows)
      : environments_(environments), rows_(rows), row_(format) {}

  /// How many rows each ring gets if all rings together may take `bytes` bytes.
  static std::size_t rows_for(const buffer::Format& format, std::size_t environments,
                              std::size_t bytes) noexcept {
    const std::size_t fit = bytes / environments / Row(format).bytes;
    return std::bit_floor(std::clamp<std::size_t>(fit, kMinRows, kMaxRows));
  }
  static constexpr std::size_t kMinRows = 16;
  static constexpr std::size_t kMaxRows = 4096;

  [[nodiscard]] std::size_t environments() const noexcept { return environments_; }
  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::size_t priorities() const noexcept { return row_.priorities; }
  /// The size of the whole memory.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return rings_at() + environments_ * rows_ * row_.bytes;
  }

  using Words = RingWords<base::StdSync>;
  [[nodiscard]] static SharedWords& shared(std::byte* memory) noexcept {
    return *reinterpret_cast<SharedWords*>(memory);
  }
  [[nodiscard]] static Words& words(std::byte* memory, std::size_t environment) noexcept {
    return reinterpret_cast<Words*>(memory + sizeof(SharedWords))[environment];
  }
  [[nodiscard]] std::byte* row(std::byte* memory, std::size_t environment,
                               std::uint64_t row) const noexcept {
    return memory + rings_at() + (environment * rows_ + (row & (rows_ - 1))) * row_.bytes;
  }
  [[nodiscard]] std::byte* state(std::byte* row) const noexcept { return row + row_.state_at; }
  [[nodiscard]] std::byte* priorities(std::byte* row) const noexcept {
    return row + row_.priorities_at;
  }

 private:
  struct Row {
    explicit Row(const buffer::Format& format) noexcept
        : state_at(aligned(format.layout.stride())),
          priorities_at(aligned(state_at + format.layout.state_stride())),
          // The end of an episode decides all open steps, and every `item_every`th step begins an
          // item.
          priorities(format.window.ahead() / format.window.item_every() + 2),
          bytes(aligned(priorities_at + priorities * sizeof(float))) {}
    static std::size_t aligned(std::size_t bytes) noexcept {
      return base::divide_up(bytes, base::kCacheLine) * base::kCacheLine;
    }

    std::size_t state_at;
    std::size_t priorities_at;
    std::size_t priorities;
    std::size_t bytes;
  };
  [[nodiscard]] std::size_t rings_at() const noexcept {
    return sizeof(SharedWords) + environments_ * sizeof(Words);
  }

  std::size_t environments_;
  std::size_t rows_;
  Row row_;
};

}  // namespace reprise::process
