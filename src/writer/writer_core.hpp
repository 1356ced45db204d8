#pragma once

#include <reprise/detail/row_view.hpp>
#include <reprise/window.hpp>
#include <reprise/writer.hpp>

#include "base/event.hpp"
#include "base/one_thread.hpp"
#include "buffer/buffer_core.hpp"
#include "writer/open_states.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

namespace reprise::writer {

/// One writer: the episode under way, and the chunk in hand or the private tail.
///
/// Rows of the episode that matter here, in the chunk or in the tail:
/// ```
///   segment_ ...... row_ - open_ ...... row_        row_ + 1
///   context, items  open items          now         next
/// ```
/// An open item is a committed step whose window is not complete, whether an item is to begin with
/// it or not. When the chunk fills in the
/// middle of an episode, the rows that open items still need move to the tail, the chunk is
/// published, closed and let go, and only then the next one is taken (so a writer never holds two),
/// which starts with the rows of the tail.
///
/// One thread at a time. What decided windows read of a row is never written again (I1): its
/// observation is complete before an item that reaches it is published, its columns before one
/// that spans it is; its header is read through its own item alone.
class WriterCore final : public detail::RowView {
 public:
  WriterCore(std::shared_ptr<buffer::BufferCore> core, std::size_t slot,
             const WriterOptions& options);
  ~WriterCore();
  WriterCore(const WriterCore&) = delete;
  WriterCore& operator=(const WriterCore&) = delete;

  void begin_episode();
  [[nodiscard]] std::size_t completing(End end) const noexcept;
  /// Throws for whatever `Writer::commit` refuses; changes nothing.
  void check_commit(End end, std::span<const float> priorities) const;
  std::size_t check_episode(std::size_t steps, End end, std::span<const float> priorities) const;
  /// As `Writer::commit` for so many decided items.
  void check_priorities(std::size_t items, std::span<const float> priorities) const;
  /// `Writer::commit` after that check. Throws `std::system_error` where the disk has no room for
  /// the step; then nothing has changed.
  CommitStatus commit(End end, std::span<const float> priorities);
  CommitStatus add_transition(End end, std::span<const detail::RawValue> values);

  base::OneThread one_thread;  ///< Entered by the public calls.

  void set_timeout(std::chrono::nanoseconds timeout) noexcept { timeout_ = timeout; }
  [[nodiscard]] bool in_episode() const noexcept { return rows[kNow] != nullptr; }
  [[nodiscard]] std::uint64_t episode() const noexcept { return episode_; }
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] buffer::BufferCore& buffer() const noexcept { return *core_; }

 private:
  // writer_check.cpp
  static void check_end(End end);
  void check_process() const;
  void check_step() const;
  /// Out of line: inlined, it costs every append a third more.
  [[gnu::noinline]] void check_unwritten(std::uint64_t missing_now,
                                         std::uint64_t missing_next) const;
  /// Out of line: not every buffer asks for it.
  [[gnu::noinline]] void check_finite() const;
  void check_finite(bool next, std::size_t field, const void* values) const;
  void check_finite(std::span<const detail::RawValue> values) const;

  // writer_core.cpp: steps and items.
  [[nodiscard]] bool begins_item(std::uint32_t back, std::uint32_t length, End end) const noexcept;
  void decide(End end, std::span<const float> priorities) noexcept;
  bool decide_step(std::uint32_t back, std::uint32_t length, End end, float priority) noexcept;
  /// Out of line: likewise.
  [[gnu::noinline]] void keep_state(std::byte* row, std::uint64_t position) noexcept;
  void end_truncated() noexcept;
  void point_at_rows() noexcept;
  [[nodiscard]] bool may_wait() const noexcept { return in_tail() || booked_ == 0; }

  // writer_room.cpp: chunks, and waiting for them.
  [[noreturn]] void refuse_disk() const;
  [[nodiscard]] bool in_tail() const noexcept { return chunk_ == storage::kNil; }
  [[nodiscard]] std::byte* row(std::uint32_t index) noexcept;
  [[nodiscard]] std::uint32_t rows_left() const noexcept;
  void announce(bool closing) noexcept;
  void note_seat() noexcept;
  void leave_seat() noexcept;
  [[nodiscard]] std::uint32_t save_context() noexcept;
  [[nodiscard]] std::uint32_t take_chunk(bool urgent) noexcept;
  bool adopt_chunk(bool urgent) noexcept;
  bool wait_for_chunk(base::Clock::time_point deadline, const std::stop_token& stop,
                      WaitHook* hook) noexcept;
  [[nodiscard]] bool last_wait_for_chunk() noexcept;

  // writer_wait.cpp: waiting for the rate limiter.
  [[nodiscard]] std::size_t look_for_items(bool& known) noexcept;
  bool book_inserts(bool& known) noexcept;
  bool wait_for_inserts(base::Clock::time_point deadline) noexcept;

  const std::shared_ptr<buffer::BufferCore> core_;
  const std::size_t slot_;
  std::chrono::nanoseconds timeout_;
  const std::stop_token stop_;
  WaitHook* const hook_;
  storage::ChunkStore& store_;
  const buffer::Life& life_;
  const std::uint32_t ahead_;  ///< Steps in a whole window.
  const std::uint32_t behind_;
  const std::uint32_t chunk_rows_;
  const std::uint64_t field_mask_;
  const std::uint64_t observation_mask_;
  const bool every_step_;        ///< Begins an item.
  const bool needs_priorities_;  ///< Some selector has no rule of its own for new items.
  const bool finite_;            ///< Observations and rewards have to be.
  const bool has_states_;        ///< The schema has recurrent states.

  std::uint32_t chunk_ = storage::kNil;
  // Of the chunk in hand.
  shard::Shard* shard_ = nullptr;
  storage::Chunk* words_ = nullptr;
  float* priorities_ = nullptr;
  std::uint64_t* order_ = nullptr;            ///< Null unless some selector needs it.
  std::size_t next_shard_;                    ///< Where the next chunk is looked for first.
  std::uint32_t seat_chunk_ = storage::kNil;  ///< From a checkpoint, to be taken before others.
  std::uint32_t row_ = 0;        ///< The current row; between episodes, the first free one.
  std::uint32_t segment_ = 0;    ///< First row of this episode here.
  std::uint32_t open_ = 0;       ///< Open steps, fewer than a whole window has.
  std::uint32_t published_ = 0;  ///< Rows of the chunk that are decided.
  std::uint32_t announced_ = 0;  ///< Of these, rows that the bell has rung for.
  std::uint64_t episode_ = 0;
  std::uint64_t position_ = 0;  ///< Steps committed in the episode.
  std::uint64_t next_episode_ = 0;
  std::size_t booked_ = 0;  ///< Inserts that the limiter has let through in advance.
  int disk_error_ = 0;      ///< Of the last look for a chunk: why there is no room for a new one.
  bool refused_ = false;    ///< The hook ended the commit.
  bool connected_ = false;  ///< add_transition: the last `next` is the current `now`.
  const std::unique_ptr<std::byte[]> tail_;  ///< context_rows() + 1 rows, touched when used.
  const OpenStates states_;
};

}  // namespace reprise::writer
