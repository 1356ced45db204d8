#pragma once

#include <reprise/raw_priority.hpp>
#include <reprise/storage.hpp>

#include "base/divider.hpp"
#include "base/mapped_file.hpp"
#include "base/memory.hpp"
#include "base/sync.hpp"
#include "storage/doorbell.hpp"
#include "storage/pin_word.hpp"
#include "storage/row_layout.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::storage {

/// Raw priorities below 0 in a chunk's priority column are marks.
using reprise::is_item;
using reprise::kInitialPriority;
inline constexpr float kNotAStep = -1.0F;         ///< Context or final row: never drawn.
inline constexpr float kStepWithoutItem = -3.0F;  ///< A step with which no item begins.

/// The shared words of one chunk; the writer's and the samplers' are on different cache lines.
struct alignas(base::kCacheLine) Chunk {
  Bell<base::StdSync> bell;
  /// Rows written. Only the chunk's owner uses it; it changes hands with the chunk, through the
  /// free and open lists.
  std::uint32_t cursor = 0;
  /// Recurrent states stored, from the front; owned as `cursor`.
  std::uint32_t states = 0;
  std::uint32_t states_touched = 0;  ///< The largest `states` ever; owned as `cursor`.
  alignas(base::kCacheLine) PinWord<base::StdSync> pins;
  FreeList<base::StdSync>::Link link{kNil};  ///< For the free or the open list.
};
static_assert(sizeof(Chunk) == 2 * base::kCacheLine);

/// The place of a row. All rows are numbered, chunk by chunk: that number is the row's slot.
struct Place {
  std::uint32_t chunk;
  std::uint32_t row;  ///< In the chunk.
};

/// The memory of all chunks: rows, their priorities, item numbers and recurrent states, and the
/// words that guard them. Address space is reserved at once; memory is taken when it is touched. If
/// the rows are in a mapped file, a chunk needs disk space (`set_aside`) before anybody writes to
/// it.
///
/// There is room for one recurrent state per row. States are stored one after the other from the
/// front of a chunk's room, as items are decided, so memory is touched for as many states as there
/// are items.
///
/// Thread safety: none of its own; the protocol decides who may touch which chunk.
class ChunkStore {
 public:
  /// std::bad_alloc without address space, std::system_error for the file. `with_item_numbers`:
  /// rows have item numbers. `state_stride`: bytes of a recurrent state, or 0.
  ChunkStore(std::size_t chunks, std::uint32_t chunk_rows, std::size_t row_stride,
             bool with_item_numbers = false, std::size_t state_stride = 0,
             const Storage& storage = Memory{});

  [[nodiscard]] std::size_t chunks() const noexcept { return chunks_.size(); }
  [[nodiscard]] std::uint32_t chunk_rows() const noexcept { return chunk_rows_.divisor(); }
  [[nodiscard]] std::size_t row_stride() const noexcept { return row_stride_; }
  [[nodiscard]] std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }
  /// Address space of rows and of everything beside them except recurrent states.
  [[nodiscard]] std::size_t reserved_bytes() const noexcept {
    return chunks() * chunk_bytes_ + reserved_columns();
  }
  [[nodiscard]] std::size_t reserved_columns() const noexcept {
    return priorities_.bytes() + item_numbers_.bytes();
  }
  [[nodiscard]] std::size_t reserved_state_bytes() const noexcept { return states_.size(); }
  /// Memory of the recurrent states stored so far, each place once. Relaxed: statistics.
  [[nodiscard]] std::size_t touched_state_bytes() const noexcept {
    return states_touched_.load(std::memory_order_relaxed) * state_stride_;
  }

  [[nodiscard]] Chunk& chunk(std::uint32_t chunk) noexcept { return chunks_[chunk]; }
  [[nodiscard]] std::byte* row(std::uint32_t chunk, std::uint32_t row) noexcept {
    return first_row_ + static_cast<std::size_t>(chunk) * chunk_bytes_ +
           static_cast<std::size_t>(row) * row_stride_;
  }
  /// Takes the next recurrent state of the chunk, for an item that is decided there. Only the
  /// chunk's writer, at most once per row.
  [[nodiscard]] StateNumber take_state(std::uint32_t chunk) noexcept;
  /// Marks the first states of a chunk as taken. Call it before any other thread has the buffer.
  void restore_states(std::uint32_t chunk, std::uint32_t states) noexcept;
  [[nodiscard]] std::byte* state(StateNumber number) noexcept {
    return states_.data() + static_cast<std::size_t>(number) * state_stride_;
  }
  [[nodiscard]] std::size_t state_stride() const noexcept { return state_stride_; }

  /// Whether rows are in a mapped file.
  [[nodiscard]] bool in_file() const noexcept { return file_.data() != nullptr; }
  /// Ensures disk space for the chunks; space that they have already is kept. Returns 0, also in
  /// memory, or an errno value. Any thread.
  [[nodiscard]] int set_aside(std::uint32_t first, std::uint32_t chunks) const noexcept {
    return in_file() ? file_.set_aside(first * chunk_bytes_, chunks * chunk_bytes_) : 0;
  }
  /// Advice: these chunks will be filled, except for recurrent states. Call it before any is used.
  void expect_full(std::uint32_t first, std::uint32_t chunks) const noexcept;
  /// Advice: the rows of a used chunk are about to be written anew. Only for the thread that took
  /// the chunk for this.
  void forget(std::uint32_t chunk) const noexcept {
    if (in_file()) {
      file_.forget(chunk * chunk_bytes_, chunk_bytes_);
    }
  }
  /// Disk space of the file; 0 without one.
  [[nodiscard]] std::size_t disk_bytes() const noexcept {
    return in_file() ? file_.disk_bytes() : 0;
  }
  /// Advice: these bytes of rows are about to be read. Does nothing in memory.
  void will_need(const std::byte* from, std::size_t bytes) const noexcept {
    if (in_file()) {
      file_.will_need(from, bytes);
    }
  }

  [[nodiscard]] Place place(std::uint32_t slot) const noexcept {
    const std::uint32_t chunk = chunk_rows_.quotient(slot);
    return {chunk, chunk_rows_.remainder(slot, chunk)};
  }
  /// One raw priority per row; written by the chunk's writer before it publishes the row.
  [[nodiscard]] float* priorities(std::uint32_t chunk) noexcept {
    return priorities_.data() + static_cast<std::size_t>(chunk) * chunk_rows();
  }
  /// Item numbers of this row and those after it; written with the priorities. Null without them.
  [[nodiscard]] std::uint64_t* item_numbers(std::uint32_t chunk, std::uint32_t row) noexcept {
    return item_numbers_.size() == 0
               ? nullptr
               : item_numbers_.data() + static_cast<std::size_t>(chunk) * chunk_rows() + row;
  }

 private:
  base::Divider chunk_rows_;
  std::size_t row_stride_;
  std::size_t chunk_bytes_;  ///< Rounded up to whole cache lines.
  base::Region memory_;      ///< The rows; empty if they are in a file.
  base::MappedFile file_;    ///< The rows; empty if they are in memory.
  std::byte* first_row_;
  base::LazyArray<float> priorities_;
  base::LazyArray<std::uint64_t> item_numbers_;  ///< Item numbers; empty without them.
  std::vector<Chunk> chunks_;
  std::size_t state_stride_;
  base::Region states_;  ///< Recurrent states; empty without them.
  /// On its own line, because every commit reads the members above.
  alignas(base::kCacheLine) std::atomic<std::size_t> states_touched_{0};
};

}  // namespace reprise::storage
