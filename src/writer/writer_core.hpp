#pragma once

#include <reprise/detail/row_view.hpp>
#include <reprise/window.hpp>
#include <reprise/writer.hpp>

#include "base/life.hpp"
#include "base/one_thread.hpp"
#include "buffer/buffer_core.hpp"
#include "limiter/wait.hpp"
#include "writer/open_states.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

namespace reprise::writer {

/// One writer: the episode under way, and its open chunk or its private tail.
///
/// The rows of the episode that it still uses, in the chunk or in the tail:
/// ```
///   segment_ ...... row_ - open_ ...... row_        row_ + 1
///   context, items  open items          now         next
/// ```
///
/// An open item is a committed step whose window is not complete, whether an item will begin with
/// it or not. When the chunk fills in the middle of an episode, the rows that open items still need
/// are copied to the tail, and the chunk is published, closed and let go. Only then the writer
/// takes the next chunk, so it never holds two, and copies the rows of the tail to its beginning.
///
/// One thread at a time. What a decided window reads is never written again (I1): the observations
/// of a row are complete before an item whose window reaches the row is published, its columns
/// before an item whose window spans the row is, and its header is read only for its own item.
class WriterCore final : public detail::RowView {
 public:
  WriterCore(std::shared_ptr<buffer::BufferCore> core, std::size_t slot,
             const WriterOptions& options);
  ~WriterCore();
  WriterCore(const WriterCore&) = delete;
  WriterCore& operator=(const WriterCore&) = delete;

  void begin_episode();
  [[nodiscard]] std::size_t completing(End end) const noexcept;
  /// Throws for everything that `Writer::commit` refuses; changes nothing.
  void check_commit(End end, std::span<const float> priorities) const;
  /// `Writer::commit` after that check. Throws `std::system_error` if the disk has no room for the
  /// step; then nothing has changed. The next stop of the data path is `announce`.
  CommitStatus commit(End end, std::span<const float> priorities);
  CommitStatus add_transition(End end, std::span<const detail::RawValue> values);

  base::OneThread one_thread;  ///< The public calls enter it.

  void set_timeout(std::chrono::nanoseconds timeout) noexcept { timeout_ = timeout; }
  [[nodiscard]] bool in_episode() const noexcept { return rows[kNow] != nullptr; }
  [[nodiscard]] std::uint64_t episode() const noexcept { return episode_; }
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] buffer::BufferCore& buffer() const noexcept { return *core_; }

 private:
  // writer_check.cpp
  static void check_end(End end);
  void check_step() const;
  /// Out of line, because inlining it makes every append a third slower.
  [[gnu::noinline]] void check_unwritten(std::uint64_t missing_now,
                                         std::uint64_t missing_next) const;
  /// Out of line, because not every buffer asks for it.
  [[gnu::noinline]] void check_finite() const;
  void check_finite(bool next, std::size_t field, const void* values) const;
  void check_finite(std::span<const detail::RawValue> values) const;
  void check_priorities(std::size_t items, std::span<const float> priorities) const;

  // writer_core.cpp: steps and items.
  [[nodiscard]] bool begins_item(std::uint32_t back, std::uint32_t length, End end) const noexcept;
  void decide(End end, std::span<const float> priorities) noexcept;
  bool decide_step(std::uint32_t back, std::uint32_t length, End end, float priority) noexcept;
  /// Out of line, because not every schema has recurrent states.
  [[gnu::noinline]] void keep_state(std::byte* row, std::uint64_t position) noexcept;
  void end_truncated() noexcept;
  void point_at_rows() noexcept;
  [[nodiscard]] bool may_wait() const noexcept { return in_tail() || booked_ == 0; }

  // writer_room.cpp: takes chunks, and waits for them.
  [[noreturn]] void refuse_disk() const;
  [[nodiscard]] bool in_tail() const noexcept { return chunk_ == storage::kNil; }
  [[nodiscard]] std::byte* row(std::uint32_t index) noexcept;
  [[nodiscard]] std::uint32_t rows_left() const noexcept;
  void announce(bool closing) noexcept;
  void note_writer_position() noexcept;
  void leave_restored_chunk() noexcept;
  [[nodiscard]] std::uint32_t save_context() noexcept;
  [[nodiscard]] std::uint32_t take_chunk(bool urgent) noexcept;
  bool adopt_chunk(bool urgent) noexcept;
  std::optional<limiter::WaitEnd> wait_for_chunk(limiter::WaitTerms& terms) noexcept;
  [[nodiscard]] bool last_wait_for_chunk() noexcept;

  // writer_wait.cpp: waits for room, and for the rate limiter.
  [[nodiscard]] std::optional<CommitStatus> wait_for_room();
  [[nodiscard]] std::size_t look_for_items(bool& known) noexcept;
  bool book_inserts(bool& known) noexcept;
  std::optional<limiter::WaitEnd> wait_for_inserts(limiter::WaitTerms& terms) noexcept;

  const std::shared_ptr<buffer::BufferCore> core_;
  const std::size_t slot_;
  std::chrono::nanoseconds timeout_;
  const std::stop_token stop_;
  WaitHook* const hook_;
  storage::ChunkStore& store_;
  const base::Life& life_;
  const std::uint32_t ahead_;  ///< Steps in a whole window.
  const std::uint32_t behind_;
  const std::uint32_t chunk_rows_;
  const std::uint64_t field_mask_;
  const std::uint64_t observation_mask_;
  const bool every_step_;        ///< Every step begins an item.
  const bool needs_priorities_;  ///< A selector has no rule for new items.
  const bool finite_;            ///< Observations and rewards have to be finite.
  const bool has_states_;        ///< The schema has recurrent states.

  std::uint32_t chunk_ = storage::kNil;
  // Parts of the open chunk.
  shard::Shard* shard_ = nullptr;
  storage::Chunk* words_ = nullptr;
  float* priorities_ = nullptr;
  std::uint64_t* item_numbers_ = nullptr;         ///< Null unless a selector needs them.
  std::size_t next_shard_;                        ///< Where it first looks for a chunk.
  std::uint32_t restored_chunk_ = storage::kNil;  ///< From a checkpoint, taken first.
  std::uint32_t row_ = 0;        ///< The current row; between episodes, the first free one.
  std::uint32_t segment_ = 0;    ///< First row of this episode here.
  std::uint32_t open_ = 0;       ///< Open steps, fewer than a whole window has.
  std::uint32_t published_ = 0;  ///< Rows of the chunk that are decided.
  std::uint32_t announced_ = 0;  ///< Decided rows that the bell has rung for.
  std::uint64_t episode_ = 0;
  std::uint64_t position_ = 0;  ///< Steps committed in the episode.
  std::uint64_t next_episode_ = 0;
  std::size_t booked_ = 0;  ///< Inserts that the limiter has booked in advance.
  int disk_error_ = 0;      ///< Errno value if the disk had no room at the last look for a chunk.
  bool connected_ = false;  ///< add_transition: the last `next` is the current `now`.
  const std::unique_ptr<std::byte[]> tail_;  ///< context_rows() + 1 rows, touched when used.
  const OpenStates states_;
};

}  // namespace reprise::writer
