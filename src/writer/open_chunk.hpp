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

/// The rows in a writer's hands: those of its open chunk, or of its private tail while it has none.
///
/// When the chunk fills in the middle of an episode, the rows that open items still need move to
/// the tail, the chunk is published, closed and let go, and only then the next one is taken (so a
/// writer never holds two), which starts with the rows of the tail.
///
/// Rows are numbered within the chunk or the tail, so their numbers and addresses change when
/// `begin`, `move_on` or `wait` takes a chunk. One thread at a time.
class OpenChunk {
 public:
  /// While it lives, what is decided is announced only with the closing of its chunk, by
  /// `announce_all`, and at the end: one ring for many steps.
  class DeferredRing {
   public:
    explicit DeferredRing(OpenChunk& chunk) noexcept : chunk_(chunk) { chunk_.held_ = true; }
    ~DeferredRing() {
      chunk_.held_ = false;
      chunk_.announce(false);
    }
    DeferredRing(const DeferredRing&) = delete;
    DeferredRing& operator=(const DeferredRing&) = delete;

   private:
    OpenChunk& chunk_;
  };

  /// Continues the writer that a checkpoint had in this slot, if there was one.
  OpenChunk(buffer::BufferCore& core, std::size_t slot);
  /// Gives the chunk to others between two episodes; afterwards nothing else may be called.
  void leave() noexcept;

  [[nodiscard]] bool in_tail() const noexcept { return chunk_ == storage::kNil; }
  /// The current row; between episodes, the first free one.
  [[nodiscard]] std::uint32_t row() const noexcept { return row_; }
  /// The memory of a row, which is in the chunk unless fields are compressed.
  [[nodiscard]] std::byte* at(std::uint32_t row) const noexcept {
    return packer_ ? packer_->at(row) : stored(row);
  }

  /// Begins an episode, in the tail if there is no chunk.
  void begin() noexcept;
  /// Ends the episode with this row, before which all is decided.
  void end(std::uint32_t final_row) noexcept;
  /// Drops the rows of the episode in this chunk, none of which is or will be decided.
  void drop() noexcept;
  /// Ends an episode with this row, after which its stream goes on. `open` and `mark`: as in
  /// `move_on`.
  void pass_final(std::uint32_t final_row, std::uint32_t open, std::uint32_t mark) noexcept;

  // These need a chunk.

  /// Decides that an item begins with this row.
  void decide(std::uint32_t row, const storage::ItemHeader& header, float priority) noexcept {
    std::memcpy(stored(row), &header, sizeof(header));
    priorities_[row] = priority;
    if (item_numbers_ != nullptr) {
      item_numbers_[row] = core_.item_numbers().take();
    }
  }
  /// Decides that no item begins with the step of this row.
  void decide_no_item(std::uint32_t row) noexcept { priorities_[row] = storage::kStepWithoutItem; }
  /// Stores the recurrent state with which the item of this row begins. It is complete before the
  /// row is published, and no other item is ever given its place (I1).
  void store_state(std::uint32_t row, const std::byte* state) noexcept;
  /// Notes that every step before this row is decided; `step`, `move_on` or `end` publishes them.
  void set_decided_end(std::uint32_t row) noexcept { published_ = row; }
  /// Whether a step of the episode was decided in this chunk.
  [[nodiscard]] bool has_decided() const noexcept { return published_ > segment_; }
  /// Goes on to the next row. False if the chunk has no room for a step there: then `move_on`.
  [[nodiscard]] bool step() noexcept {
    pack_through(row_ + 1);
    ++row_;
    if (row_ + 1 < core_.store().chunk_rows()) {
      announce(false);
      return true;
    }
    return false;
  }
  /// Closes the chunk and goes on with the current row, the `open` rows before it and those of the
  /// frame stack before these, in the next chunk if there is one at once. `mark` is that of the
  /// current step (`storage::Sequel`).
  void move_on(std::uint32_t open, std::uint32_t mark) noexcept;
  /// Ends a stream before the current row, before which all is decided.
  void end_stream() noexcept;

  /// Announces what is decided, though a `DeferredRing` holds it. Called before a wait.
  void announce_all() noexcept {
    const bool held = std::exchange(held_, false);
    announce(false);
    held_ = held;
  }
  /// Waits for a chunk, within an episode; returns why there is none, or nothing.
  [[nodiscard]] std::optional<limiter::WaitEnd> wait(limiter::WaitTerms& terms) noexcept;
  /// Throws `std::system_error` if the last wait found no chunk because the disk is full.
  void check_disk() const;
  /// Whether it has no chunk because the disk is full, even if it did not wait.
  [[nodiscard]] bool lacks_disk() const noexcept { return in_tail() && lacks_disk_; }

 private:
  /// A row as it is stored in the chunk; while there is no chunk, a row of the tail (but not if
  /// fields are compressed).
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
  /// The end of the rows up to the current one, which a full chunk does not have between episodes.
  [[nodiscard]] std::uint32_t end_of_rows() const noexcept {
    return std::min(row_ + 1, core_.store().chunk_rows());
  }
  void copy_to_tail(std::uint32_t first) noexcept;
  void announce(bool closing) noexcept;
  bool take(bool urgent) noexcept;
  bool take_with_tail(bool urgent) noexcept;
  void enter(std::uint32_t chunk) noexcept;

  buffer::BufferCore& core_;
  const std::size_t slot_;
  std::optional<Packer> packer_;  ///< Holds the rows of the tail, if fields are compressed.
  const std::unique_ptr<std::byte[]> tail_;  ///< Otherwise, context_rows() + 1 rows.
  std::byte* rows_;                          ///< The tail, or the rows of the chunk in hand.
  std::uint32_t chunk_ = storage::kNil;
  std::uint32_t previous_chunk_ =
      storage::kNil;        ///< The last chunk that filled in the middle of an episode.
  std::uint32_t mark_ = 0;  ///< The mark of the step after those of `previous_chunk_`.
  // These belong to the present chunk.
  shard::Shard* shard_ = nullptr;
  float* priorities_ = nullptr;
  std::uint64_t* item_numbers_ = nullptr;  ///< Null unless some selector needs item numbers.
  std::uint32_t row_ = 0;
  std::uint32_t segment_ = 0;    ///< First row of this episode or stream in the chunk.
  std::uint32_t published_ = 0;  ///< Rows of the chunk that are decided.
  std::uint32_t announced_ = 0;  ///< Rows that the bell has rung for, at most the decided ones.
  bool held_ = false;            ///< A `DeferredRing` holds announcements back.
  bool lacks_disk_ = false;      ///< Whether the last wait that failed found the disk full.
  int disk_error_ = 0;  ///< Why the last search found no disk space for a chunk: errno, or 0.
};

}  // namespace reprise::writer
