#pragma once

#include "buffer/buffer_core.hpp"
#include "limiter/wait.hpp"
#include "writer/packer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace reprise::writer {

/// How much a writer needs a chunk: an urgent one may be fresh where a usual one would not.
enum class Need : std::uint8_t { Usual, Urgent };

/// The rows in a writer's hands: those of its open chunk, or of its private tail while it has none.
///
/// A chunk may fill in the middle of an episode. Then the rows that open items still need move to
/// the tail, and the chunk is published, closed and given up. Only afterwards the writer takes its
/// next chunk, so that it never holds two, and copies the tail's rows to the beginning of that
/// chunk.
///
/// Rows are numbered within the chunk or the tail, so their numbers and addresses change when
/// `begin`, `move_on` or `wait` takes a chunk. One thread at a time.
class OpenChunk {
 public:
  /// Delays announcements, so that many steps cost one ring of the doorbell. While this object
  /// lives, decided rows are announced only when the chunk is closed and by `announce_all`; the
  /// destructor announces the rest.
  class DeferredRing {
   public:
    explicit DeferredRing(OpenChunk& chunk) noexcept : chunk_(chunk) { chunk_.held_ = true; }
    ~DeferredRing() {
      chunk_.held_ = false;
      chunk_.announce();
    }
    DeferredRing(const DeferredRing&) = delete;
    DeferredRing& operator=(const DeferredRing&) = delete;

   private:
    OpenChunk& chunk_;
  };

  /// If the buffer was loaded, goes on where the writer of this slot was at the save.
  OpenChunk(buffer::BufferCore& core, std::size_t slot);
  /// Gives the chunk to other writers. Called between two episodes; afterwards nothing else may be
  /// called.
  void leave() noexcept;

  [[nodiscard]] bool in_tail() const noexcept { return chunk_ == storage::kNil; }
  /// The number of the current step's row; between episodes, that of the first free row.
  [[nodiscard]] std::uint32_t row() const noexcept { return row_; }
  /// The memory to which the writer writes a row: in the chunk or the tail, or, if fields are
  /// compressed, in the packer.
  [[nodiscard]] std::byte* at(std::uint32_t row) const noexcept {
    return packer_ ? packer_->at(row) : stored(row);
  }

  /// Begins an episode, in the tail if there is no chunk.
  void begin() noexcept;
  /// Ends the episode. The final row holds its last observation; every step before it is decided.
  void end(std::uint32_t final_row) noexcept;
  /// Frees the episode's rows in this chunk. None of their steps is decided, or ever will be.
  void drop() noexcept;
  /// Makes a row the final one of an episode; the stream goes on with the next episode behind it.
  /// `open` and `mark`: as in `move_on`.
  void pass_final(std::uint32_t final_row, std::uint32_t open, std::uint32_t mark) noexcept;

  // The functions up to `end_stream` need a chunk.

  /// Stores header and priority of the item that begins with this row, whose window is complete
  /// now.
  void decide(std::uint32_t row, const storage::ItemHeader& header, float priority) noexcept {
    std::memcpy(stored(row), &header, sizeof(header));
    priorities_[row] = priority;
    if (item_numbers_ != nullptr) {
      item_numbers_[row] = core_.item_numbers().take();
    }
  }
  /// Decides that no item begins with the step of this row.
  void decide_no_item(std::uint32_t row) noexcept { priorities_[row] = storage::kStepWithoutItem; }
  /// Stores the recurrent state with which the item of this row begins, before the row is
  /// published. Until the chunk is reclaimed no other state gets the same place (I1).
  void store_state(std::uint32_t row, const std::byte* state) noexcept;
  /// Notes that every step before this row is decided; `step`, `move_on` or `end` publishes them.
  void set_decided_end(std::uint32_t row) noexcept { published_ = row; }
  /// Whether a step of the episode was decided in this chunk.
  [[nodiscard]] bool has_decided() const noexcept { return published_ > segment_; }
  /// Goes on to the next row and announces decided rows. Returns false if the chunk is too full for
  /// another step, which also needs the row after its own; then the caller calls `move_on`.
  [[nodiscard]] bool step() noexcept {
    pack_through(row_ + 1);
    ++row_;
    if (row_ + 1 < core_.store().chunk_rows()) {
      announce();
      return true;
    }
    return false;
  }
  /// Closes the chunk. The current row, the `open` rows before it and the rows that frame stacks
  /// read before these move to the tail, and on to the next chunk if one can be had without
  /// waiting. `mark`: the mark of the current step (`storage::Sequel`).
  void move_on(std::uint32_t open, std::uint32_t mark) noexcept;
  /// Ends a stream. Every step before the current row is decided.
  void end_stream() noexcept;

  /// Announces decided rows even while a `DeferredRing` lives. Called before each wait: what the
  /// writer waits for may be a draw of these rows.
  void announce_all() noexcept {
    const bool held = std::exchange(held_, false);
    announce();
    held_ = held;
  }
  /// Waits, within an episode, for a chunk. Returns nothing once there is one, or why the wait
  /// ended.
  [[nodiscard]] std::optional<limiter::WaitEnd> wait(limiter::WaitTerms& terms) noexcept;
  /// Throws `std::system_error` if the last wait found no chunk because the disk is full.
  void check_disk() const;
  /// Whether the writer has no chunk because the disk is full. True even if the hook refused the
  /// wait, after which `check_disk` does not throw.
  [[nodiscard]] bool lacks_disk() const noexcept { return in_tail() && lacks_disk_; }

 private:
  /// A row in the chunk; while there is no chunk, in the tail, but only if no field is compressed.
  [[nodiscard]] std::byte* stored(std::uint32_t row) const noexcept {
    return rows_ + row * core_.store().row_stride();
  }
  void pack_through(std::uint32_t row) noexcept {
    if (packer_) {
      packer_->pack(segment_, row);
    }
  }
  [[nodiscard]] std::uint32_t rows_left() const noexcept {
    return core_.store().chunk_rows() - row_;
  }
  /// One past the current row; between episodes a full chunk has no current row, and ends there.
  [[nodiscard]] std::uint32_t end_of_rows() const noexcept {
    return std::min(row_ + 1, core_.store().chunk_rows());
  }
  void copy_to_tail(std::uint32_t first) noexcept;
  void announce() noexcept;
  void close() noexcept;
  void publish_and_ring(shard::Ring what) noexcept;
  bool take(Need need = Need::Usual) noexcept;
  bool take_with_tail(Need need = Need::Usual) noexcept;
  void enter(std::uint32_t chunk) noexcept;

  buffer::BufferCore& core_;
  const std::size_t slot_;
  std::optional<Packer> packer_;  ///< If fields are compressed; then it holds the tail's rows.
  const std::unique_ptr<std::byte[]> tail_;  ///< If none are: context_rows() + 1 rows.
  std::byte* rows_;                          ///< The tail, or the rows of the chunk in hand.
  std::uint32_t chunk_ = storage::kNil;
  std::uint32_t previous_chunk_ =
      storage::kNil;        ///< The last chunk that filled in the middle of an episode.
  std::uint32_t mark_ = 0;  ///< The mark of the step with which `previous_chunk_` goes on.
  // The members below describe the chunk in hand.
  shard::Shard* shard_ = nullptr;
  float* priorities_ = nullptr;
  std::uint64_t* item_numbers_ = nullptr;  ///< Null unless some selector needs item numbers.
  std::uint32_t row_ = 0;
  std::uint32_t segment_ = 0;    ///< First row of this episode or stream in the chunk.
  std::uint32_t published_ = 0;  ///< Steps of rows [0, published_) are decided.
  std::uint32_t announced_ = 0;  ///< The bell has rung for rows [0, announced_).
  bool held_ = false;            ///< A `DeferredRing` holds announcements back.
  bool lacks_disk_ = false;      ///< Whether the last wait that failed found the disk full.
  int disk_error_ = 0;  ///< Why the last search found no disk space for a chunk: errno, or 0.
};

}  // namespace reprise::writer
