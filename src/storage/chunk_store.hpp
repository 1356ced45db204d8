#pragma once

#include <reprise/item.hpp>
#include <reprise/storage.hpp>

#include "base/divider.hpp"
#include "base/memory.hpp"
#include "base/sync.hpp"
#include "storage/doorbell.hpp"
#include "storage/mutable_values.hpp"
#include "storage/pages.hpp"
#include "storage/pin_word.hpp"
#include "storage/row_layout.hpp"
#include "storage/sequel.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace reprise::storage {

// A number below 0 in the place of a row's raw priority is a mark, which says what the row is.
using reprise::is_item;
using reprise::kInitialPriority;
inline constexpr float kNotAStep = -1.0F;         ///< A row without a step: context or final row.
inline constexpr float kStepWithoutItem = -3.0F;  ///< A step with which no item begins.

/// The shared words of one chunk. Those that writers use and those that samplers use are on
/// different cache lines.
struct alignas(base::kCacheLine) Chunk {
  Bell<base::StdSync> bell;
  /// The number of rows written. Only the chunk's owner uses this word and the next two; the chunk
  /// changes owners through the list of free chunks or that of open ones.
  std::uint32_t cursor = 0;
  std::uint32_t states = 0;          ///< The number of recurrent states stored.
  std::uint32_t states_touched = 0;  ///< The largest `states` ever.
  // Statistics, stored by the owner and read by anybody.
  std::atomic<std::uint32_t> frame_rows{0};           ///< Rows whose frames are in the frame room.
  std::atomic<std::uint32_t> frame_bytes{0};          ///< Bytes of these frames.
  std::atomic<std::uint32_t> frame_bytes_touched{0};  ///< The largest `frame_bytes` ever.
  Sequel sequel;  ///< Where the episode of the chunk's last step goes on.
  alignas(base::kCacheLine) PinWord<base::StdSync> pins;
  FreeList<base::StdSync>::Link link{kNil};  ///< In the list of free chunks or that of open ones.
};
static_assert(sizeof(Chunk) == 2 * base::kCacheLine);

/// The place of a row. Rows are numbered through all chunks; a row's number is its slot.
struct Place {
  std::uint32_t chunk;
  std::uint32_t row;  ///< In the chunk.
};

/// The sizes of a `ChunkStore`.
struct ChunkSizes {
  std::uint32_t rows = 0;       ///< Per chunk.
  std::size_t row_bytes = 0;    ///< From one row to the next.
  bool item_numbers = false;    ///< Whether rows have item numbers.
  std::size_t state_bytes = 0;  ///< Bytes of a recurrent state, or 0.
  /// Bytes of all compressed frames of a row, before compression; or 0.
  std::size_t frame_bytes = 0;
  std::size_t last_ref = 0;   ///< Offset in a row of the `FrameRef` of its last frame.
  bool versions = false;      ///< Whether rows have mutable columns.
  std::size_t policy_at = 0;  ///< Offset in a row of the version of the policy, if rows have it.
};

/// The memory of all chunks: rows, their compressed frames, priorities, item numbers and recurrent
/// states, and the words that guard them. Address space is reserved at once; memory is taken when
/// it is touched. If the rows are in a mapped file, a chunk needs disk space (`set_aside`) before
/// anybody writes to it.
///
/// There is room for one recurrent state per row. The states of a chunk are stored one after the
/// other, as items are decided, so only as much memory is touched as the chunk has items. In the
/// same way the compressed frames of a chunk lie one after the other in its frame room, which is
/// large enough for all frames uncompressed; the pages behind the last frame are never touched.
///
/// Thread safety: none of its own; the protocol of docs/design.md decides who may touch which
/// chunk.
class ChunkStore {
 public:
  /// Throws std::bad_alloc without address space, and std::system_error if the file fails.
  ChunkStore(std::size_t chunks, const ChunkSizes& sizes, const Storage& storage = Memory{});
  ChunkStore(std::size_t chunks, std::uint32_t chunk_rows, std::size_t row_stride)
      : ChunkStore(chunks, {.rows = chunk_rows, .row_bytes = row_stride}) {}

  [[nodiscard]] std::size_t chunks() const noexcept { return chunks_.size(); }
  [[nodiscard]] std::uint32_t chunk_rows() const noexcept { return chunk_rows_.divisor(); }
  /// The row of the last step in a chunk whose writer moved on in the middle of an episode; the row
  /// behind it has the next observation. (Unless windows have one step, this step may be decided
  /// only in the next chunk.)
  [[nodiscard]] std::uint32_t last_step() const noexcept { return chunk_rows() - 2; }
  [[nodiscard]] std::size_t row_stride() const noexcept { return row_stride_; }
  [[nodiscard]] std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }
  /// The bytes that `set_aside` reserves for a chunk.
  [[nodiscard]] std::size_t disk_bytes_of_chunk() const noexcept {
    return chunk_bytes_ + frame_room_bytes_;
  }
  /// Bytes of address space of everything but recurrent states.
  [[nodiscard]] std::size_t reserved_bytes() const noexcept {
    return rows_.size() + frames_.size() + reserved_columns();
  }
  /// The part of these bytes that is neither rows nor frames.
  [[nodiscard]] std::size_t reserved_columns() const noexcept {
    return priorities_.bytes() + item_numbers_.bytes() + versions_.size();
  }
  [[nodiscard]] std::size_t reserved_state_bytes() const noexcept { return states_.size(); }
  /// Bytes of the places in which recurrent states were ever stored. Relaxed: statistics.
  [[nodiscard]] std::size_t touched_state_bytes() const noexcept {
    return states_touched_.load(std::memory_order_relaxed) * state_stride_;
  }

  [[nodiscard]] Chunk& chunk(std::uint32_t chunk) noexcept { return chunks_[chunk]; }
  [[nodiscard]] std::byte* row(std::uint32_t chunk, std::uint32_t row) noexcept {
    return rows_.data() + static_cast<std::size_t>(chunk) * chunk_bytes_ +
           static_cast<std::size_t>(row) * row_stride_;
  }
  /// The version of the policy in a row, if rows have it.
  [[nodiscard]] std::int64_t policy_version(std::uint32_t chunk, std::uint32_t row) noexcept {
    std::int64_t version = 0;
    std::memcpy(&version, this->row(chunk, row) + policy_at_, sizeof(version));
    return version;
  }
  /// Takes the next place for a recurrent state, for an item that is decided in the chunk. Only the
  /// chunk's writer calls it, at most once per row.
  [[nodiscard]] StateNumber take_state(std::uint32_t chunk) noexcept;
  /// Marks the first `states` places of a chunk as taken. Call it before any other thread has the
  /// buffer.
  void restore_states(std::uint32_t chunk, std::uint32_t states) noexcept;
  [[nodiscard]] std::byte* state(StateNumber number) noexcept {
    return states_.data() + static_cast<std::size_t>(number) * state_stride_;
  }
  [[nodiscard]] std::size_t state_stride() const noexcept { return state_stride_; }

  /// The frame room of a chunk; empty without compressed frames. The frames of the chunk's rows
  /// follow each other there without a gap.
  [[nodiscard]] std::span<std::byte> frame_room(std::uint32_t chunk) noexcept {
    return {frames_.data() + chunk * frame_room_bytes_, frame_room_bytes_};
  }
  /// The frame room of the chunk with this row.
  [[nodiscard]] std::span<const std::byte> frame_room(const std::byte* row) const noexcept {
    const std::size_t chunk = static_cast<std::size_t>(row - rows_.data()) / chunk_bytes_;
    return {frames_.data() + chunk * frame_room_bytes_, frame_room_bytes_};
  }
  /// Where the frames of the first `rows` rows of a chunk end in its frame room. Damaged places of
  /// frames in the rows move this end at most so far that the other rows' frames still have room.
  [[nodiscard]] std::uint32_t frames_end(std::uint32_t chunk, std::uint32_t rows) noexcept;
  /// Sets, for statistics, how many rows have frames in the chunk's frame room, and their bytes.
  /// Only for the chunk's owner, or before any other thread has the buffer.
  void note_frames(std::uint32_t chunk, std::uint32_t rows, std::uint32_t bytes) noexcept;
  /// The memory that a chunk uses, as if each row had a recurrent state. Relaxed: statistics.
  [[nodiscard]] std::size_t bytes_of_chunk(std::uint32_t chunk) const noexcept {
    return chunk_bytes_ + chunk_rows() * state_stride_ + packed_bytes(chunk);
  }
  /// The bytes that compressed frames take in the chunks that are in use, those that they would
  /// take uncompressed, and the memory that frames have touched so far. Relaxed: statistics.
  struct FrameTotals {
    std::size_t compressed = 0;
    std::size_t uncompressed = 0;
    std::size_t touched = 0;
  };
  [[nodiscard]] FrameTotals frame_totals() const noexcept;

  [[nodiscard]] bool has_frames() const noexcept { return frame_bytes_ != 0; }
  /// Whether rows are in a mapped file.
  [[nodiscard]] bool in_file() const noexcept { return rows_.in_file(); }
  /// Ensures disk space for the chunks, if rows are in a file; space that chunks have already is
  /// kept. Returns 0 or an errno value. Any thread.
  [[nodiscard]] int set_aside(std::uint32_t first, std::uint32_t chunks) const noexcept {
    const int error = rows_.set_aside(first * chunk_bytes_, chunks * chunk_bytes_);
    return error != 0 || frame_room_bytes_ == 0
               ? error
               : frames_.set_aside(first * frame_room_bytes_, chunks * frame_room_bytes_);
  }
  /// Advice: these chunks will be filled, except for recurrent states and compressed frames. Call
  /// it before any of the chunks is used.
  void expect_full(std::uint32_t first, std::uint32_t chunks) const noexcept;
  /// Advice: the rows of a used chunk are about to be written anew, by the caller, who has the
  /// chunk.
  void wont_need(std::uint32_t chunk) const noexcept {
    rows_.wont_need(chunk * chunk_bytes_, chunk_bytes_);
    // Only the part that was ever touched: the rest would look like pages that were paged out.
    // Relaxed: the chunk is the caller's.
    frames_.wont_need(chunk * frame_room_bytes_,
                      chunks_[chunk].frame_bytes_touched.load(std::memory_order_relaxed));
  }
  /// Bytes of disk space of the files; 0 without a file.
  [[nodiscard]] std::size_t disk_bytes() const noexcept {
    return rows_.disk_bytes() + frames_.disk_bytes();
  }
  /// Advice: these bytes of rows are about to be read. Does nothing if rows are in memory.
  void will_need(const std::byte* from, std::size_t bytes) const noexcept {
    rows_.will_need(from, bytes);
  }

  /// Advice: the compressed frames of rows [first, last] of a chunk, and their key frames, are
  /// about to be read. The rows have to be published, because the places of their frames are read
  /// here.
  void will_need_frames(std::uint32_t chunk, std::uint32_t first, std::uint32_t last) noexcept;

  /// Advice: the used part of this chunk is about to be read.
  void will_need_chunk(std::uint32_t chunk) const noexcept {
    rows_.will_need(rows_.data() + chunk * chunk_bytes_, chunk_bytes_);
    frames_.will_need(frames_.data() + chunk * frame_room_bytes_, packed_bytes(chunk));
  }

  /// The version of the mutable columns of this row, in an array with those of the chunk's other
  /// rows. Call it only with mutable columns. The array begins as zeroed memory: valid versions.
  [[nodiscard]] Version* version(const std::byte* row) const noexcept {
    const auto at = static_cast<std::size_t>(row - rows_.data());
    const std::size_t chunk = at / chunk_bytes_;
    return reinterpret_cast<Version*>(versions_.data()) + chunk * chunk_rows() +
           (at - chunk * chunk_bytes_) / row_stride_;
  }

  /// The sum of the versions of a chunk's rows, which every update of a mutable column changes; 0
  /// without such columns.
  [[nodiscard]] std::uint32_t changes(std::uint32_t chunk) const noexcept;

  [[nodiscard]] std::uint32_t slot(Place place) const noexcept {
    return place.chunk * chunk_rows() + place.row;
  }
  [[nodiscard]] Place place(std::uint32_t slot) const noexcept {
    const std::uint32_t chunk = chunk_rows_.quotient(slot);
    return {chunk, chunk_rows_.remainder(slot, chunk)};
  }
  /// One raw priority or mark per row, written by the chunk's writer before it publishes the row.
  [[nodiscard]] float* priorities(std::uint32_t chunk) noexcept {
    return priorities_.data() + static_cast<std::size_t>(chunk) * chunk_rows();
  }
  /// The item numbers of this row and the rows behind it, written with the priorities. Null if the
  /// store has no item numbers.
  [[nodiscard]] std::uint64_t* item_numbers(std::uint32_t chunk, std::uint32_t row) noexcept {
    return item_numbers_.size() == 0
               ? nullptr
               : item_numbers_.data() + static_cast<std::size_t>(chunk) * chunk_rows() + row;
  }

 private:
  /// Bytes of a chunk's compressed frames. Relaxed: statistics and advice.
  [[nodiscard]] std::size_t packed_bytes(std::uint32_t chunk) const noexcept {
    return chunks_[chunk].frame_bytes.load(std::memory_order_relaxed);
  }

  base::Divider chunk_rows_;
  std::size_t row_stride_;
  std::size_t chunk_bytes_;       ///< Rounded up to whole cache lines.
  std::size_t frame_bytes_;       ///< Bytes of a row's compressed frames, before compression.
  std::size_t last_ref_;          ///< Offset in a row of the `FrameRef` of its last frame.
  std::size_t policy_at_;         ///< Offset in a row of the version of the policy.
  std::size_t frame_room_bytes_;  ///< Whole pages.
  Pages rows_;
  Pages frames_;  ///< Frame rooms; empty without compressed frames.
  base::LazyArray<float> priorities_;
  base::LazyArray<std::uint64_t> item_numbers_;  ///< Empty unless a selector needs item numbers.
  base::Region versions_;  ///< Versions of rows; empty without mutable columns.
  std::vector<Chunk> chunks_;
  std::size_t state_stride_;
  base::Region states_;  ///< Recurrent states; empty without them.
  /// On a cache line of its own, because every commit reads the members above.
  alignas(base::kCacheLine) std::atomic<std::size_t> states_touched_{0};
};

}  // namespace reprise::storage
