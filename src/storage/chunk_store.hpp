#pragma once

#include <reprise/raw_priority.hpp>
#include <reprise/storage.hpp>

#include "base/cache_line.hpp"
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

/// Raw priorities below zero in a chunk's priority column have a meaning of their own.
using reprise::is_item;
using reprise::kInitialPriority;
inline constexpr float kNotAStep = -1.0F;         ///< Context or final row: never drawn.
inline constexpr float kStepWithoutItem = -3.0F;  ///< A step with which no item begins.

/// The shared words of one chunk, the writer's and the samplers' on cache lines of their own.
struct alignas(base::kCacheLine) Chunk {
  Bell<base::StdSync> bell;
  /// Rows written; the owner's, passed on with the chunk through the free and open lists.
  std::uint32_t cursor = 0;
  std::uint32_t states = 0;          ///< Recurrent states stored, from the front; likewise.
  std::uint32_t states_touched = 0;  ///< The most that there ever were; likewise.
  alignas(base::kCacheLine) PinWord<base::StdSync> pins;
  FreeList<base::StdSync>::Link link{kNil};  ///< In the free or the open list.
};
static_assert(sizeof(Chunk) == 2 * base::kCacheLine);

/// Where a row is. All rows are numbered through, chunk by chunk: that number is the row's slot.
struct Place {
  std::uint32_t chunk;
  std::uint32_t row;  ///< In the chunk.
};

/// The memory of all chunks: rows, what lies beside them, and the words that guard them. Address
/// space is reserved at once, memory taken when touched. The rows may be in a mapped file: then
/// there must be disk space for a chunk (`set_aside`) before anybody writes to it.
///
/// Recurrent states have room for one per row, and are stored one behind the other from the front
/// of a chunk's room, as items are decided: only as many pages are touched as items begin.
///
/// Thread safety: none of its own; who may touch which chunk follows from the protocol.
class ChunkStore {
 public:
  /// std::bad_alloc if the address space cannot be had, std::system_error for that of a file.
  /// `with_order`: rows have a number that says when their item was decided. `state_stride`: bytes
  /// of a recurrent state, or 0.
  ChunkStore(std::size_t chunks, std::uint32_t chunk_rows, std::size_t row_stride,
             bool with_order = false, std::size_t state_stride = 0,
             const Storage& storage = Memory{});

  [[nodiscard]] std::size_t chunks() const noexcept { return chunks_.size(); }
  [[nodiscard]] std::uint32_t chunk_rows() const noexcept { return chunk_rows_.divisor(); }
  [[nodiscard]] std::size_t row_stride() const noexcept { return row_stride_; }
  [[nodiscard]] std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }
  /// Address space of rows, and of what lies beside them but recurrent states.
  [[nodiscard]] std::size_t reserved_bytes() const noexcept {
    return row_bytes() + reserved_columns();
  }
  [[nodiscard]] std::size_t reserved_columns() const noexcept {
    return priorities_.bytes() + order_.bytes();
  }
  [[nodiscard]] std::size_t reserved_state_bytes() const noexcept { return states_.size(); }
  /// Of recurrent states ever stored at different places. Relaxed: statistics.
  [[nodiscard]] std::size_t touched_state_bytes() const noexcept {
    return states_touched_.load(std::memory_order_relaxed) * state_stride_;
  }

  [[nodiscard]] Chunk& chunk(std::uint32_t chunk) noexcept { return chunks_[chunk]; }
  [[nodiscard]] std::byte* row(std::uint32_t chunk, std::uint32_t row) noexcept {
    return first_row_ + static_cast<std::size_t>(chunk) * chunk_bytes_ +
           static_cast<std::size_t>(row) * row_stride_;
  }
  /// The number of a recurrent state not taken yet, for an item that is decided in this chunk. The
  /// chunk's writer only, once per row at most.
  [[nodiscard]] StateNumber take_state(std::uint32_t chunk) noexcept;
  /// Before any other thread has the buffer: so many are in their places.
  void restore_states(std::uint32_t chunk, std::uint32_t states) noexcept;
  [[nodiscard]] std::byte* state(StateNumber number) noexcept {
    return states_.data() + static_cast<std::size_t>(number) * state_stride_;
  }
  [[nodiscard]] std::size_t state_stride() const noexcept { return state_stride_; }

  /// Whether rows are in a mapped file.
  [[nodiscard]] bool in_file() const noexcept { return file_.data() != nullptr; }
  /// Room on the disk for so many chunks, whatever of it there was. 0, also in memory, or an errno
  /// value. Any thread.
  [[nodiscard]] int set_aside(std::uint32_t first, std::uint32_t chunks) const noexcept {
    return in_file() ? file_.set_aside(first * chunk_bytes_, chunks * chunk_bytes_) : 0;
  }
  /// Advice: so many chunks will be filled, but for recurrent states. Before any is used.
  void expect_full(std::uint32_t first, std::uint32_t chunks) const noexcept;
  /// Advice: the rows of a chunk that was used before are about to be written anew. Only who took
  /// it for that.
  void forget(std::uint32_t chunk) const noexcept {
    if (in_file()) {
      file_.forget(chunk * chunk_bytes_, chunk_bytes_);
    }
  }
  /// Of the file; 0 without one.
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
  /// When the items of this row and those after it were decided; written with the priorities. Null
  /// if that is not kept.
  [[nodiscard]] std::uint64_t* order(std::uint32_t chunk, std::uint32_t row) noexcept {
    return order_.size() == 0
               ? nullptr
               : order_.data() + static_cast<std::size_t>(chunk) * chunk_rows() + row;
  }

 private:
  [[nodiscard]] std::size_t row_bytes() const noexcept { return chunks_.size() * chunk_bytes_; }

  base::Divider chunk_rows_;
  std::size_t row_stride_;
  std::size_t chunk_bytes_;  ///< Rounded up to whole cache lines.
  base::Region memory_;      ///< Of rows; empty if they are in a file.
  base::MappedFile file_;    ///< Of rows; empty if they are in memory.
  std::byte* first_row_;
  base::LazyArray<float> priorities_;
  base::LazyArray<std::uint64_t> order_;  ///< Empty if it is not kept.
  std::vector<Chunk> chunks_;
  std::size_t state_stride_;
  base::Region states_;  ///< Empty if there are none.
  /// On a line of its own, because every commit reads the members above.
  alignas(base::kCacheLine) std::atomic<std::size_t> states_touched_{0};
};

}  // namespace reprise::storage
