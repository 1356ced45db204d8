#pragma once

#include <reprise/writer.hpp>

#include "buffer/buffer_core.hpp"
#include "storage/row_layout.hpp"
#include "window/window_spec.hpp"
#include "writer/booked_inserts.hpp"
#include "writer/open_chunk.hpp"
#include "writer/step_writer.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

namespace reprise::writer {

/// Keeps the recurrent states of a writer's open steps and of the current one until the windows of
/// these steps are complete, and with them it is known which of the steps begin an item. States are
/// found by the step's number in its episode or stream, so they need not move when the writer moves
/// to its next chunk.
///
/// At most a window's T steps are open or current, and they are consecutive. Each step with which
/// an item may begin has a place of its own; all other steps share one place that nobody reads.
///
/// One thread at a time.
class OpenStates {
 public:
  OpenStates(const storage::RowLayout& layout, const window::WindowSpec& window)
      : bytes_(layout.state_stride()),
        every_(window.item_every()),
        places_((window.ahead() + every_ - 1) / every_),
        memory_(bytes_ == 0 ? nullptr
                            : std::make_unique_for_overwrite<std::byte[]>((places_ + 1) * bytes_)) {
  }

  /// Whether an item may begin with the step of this number, so that its states are kept.
  [[nodiscard]] bool kept(std::uint64_t number) const noexcept { return number % every_ == 0; }

  [[nodiscard]] std::byte* at(std::uint64_t number) const noexcept {
    const std::uint64_t place = kept(number) ? number / every_ % places_ : places_;
    return memory_.get() + place * bytes_;
  }

 private:
  std::size_t bytes_;     ///< Bytes of the states of one step.
  std::uint64_t every_;   ///< Numbers that are multiples of this are kept.
  std::uint64_t places_;  ///< The most states kept at a time.
  std::unique_ptr<std::byte[]> memory_;
};

/// One writer into the chunks of a buffer: the episode under way, and its steps in the chunk or the
/// tail (`OpenChunk`).
///
/// Rows of the episode that matter here:
/// ```
///   ............... row - open_ ....... row         row + 1
///   context, items  open items          now         next
/// ```
/// In a stream, final rows of earlier episodes lie between these, and steps stay open when their
/// episode ends. Therefore each commit writes the step's episode and position into its row's
/// header.
///
/// One thread at a time. What the window of a decided item reads of a row is never written again
/// (I1). A row's observation is complete before an item whose window reaches the row is published,
/// and its columns before an item whose window has the row's step is published. Windows never read
/// a row's header (`storage::ItemHeader`).
class WriterCore final : public StepWriter {
 public:
  /// `polls`: set for a thread that must not wait. A commit without room then answers `Stopped`,
  /// and the writer keeps its place in the line of waiting writers until the commit is repeated.
  /// The hook has to refuse waits for a chunk.
  WriterCore(std::shared_ptr<buffer::BufferCore> core, std::size_t slot,
             const WriterOptions& options, bool polls = false);
  ~WriterCore() override;

  void begin_episode() override;
  /// Throws `std::system_error` if the disk has no room for the step; then nothing has changed.
  CommitStatus commit(End end, std::span<const float> priorities) override;
  CommitStatus add_transitions(std::span<const End> ends, std::span<const detail::RawValue> values,
                               std::size_t& done) override;

  // The next functions write a step that another writer has checked, as the bytes of parts of its
  // row. `commit` takes the step without another check.

  /// Writes the first observation of an episode that has begun.
  void write_first(const std::byte* observations) noexcept {
    const std::size_t from = core_->layout().headers_end();
    std::memcpy(rows[kNow] + from, observations, core_->layout().observations_end() - from);
  }
  /// Writes the columns of the current step, the observation after it, and its recurrent states
  /// unless these are null.
  void write_step(const std::byte* columns, const std::byte* observations,
                  const std::byte* state) noexcept {
    const storage::RowLayout& layout = core_->layout();
    const std::size_t from = layout.observations_end();
    std::memcpy(rows[kNow] + from, columns, layout.stride() - from);
    std::memcpy(rows[kNext] + layout.headers_end(), observations, from - layout.headers_end());
    if (state != nullptr) {
      std::memcpy(rows[kState], state, layout.state_stride());
    }
  }
  /// Ends the episode under way, if there is one, at its last commit.
  void end_at_last_commit() noexcept {
    if (in_episode()) {
      end_truncated(wait_to_decide());
    }
  }
  /// Like `end_at_last_commit`, for a writer that polls. Returns false, and leaves the episode
  /// open, if there is no chunk for its open steps.
  [[nodiscard]] bool poll_end() noexcept {
    const bool ends = !in_episode() || wait_to_decide();
    if (ends) {
      end_at_last_commit();
    }
    return ends;
  }
  /// While it lives, many steps are announced with one ring (`OpenChunk::DeferredRing`).
  [[nodiscard]] OpenChunk::DeferredRing deferred_ring() noexcept {
    return OpenChunk::DeferredRing(chunk_);
  }
  /// Gives up the place in the line that a polling commit keeps for this writer, if any.
  void give_up_turn() noexcept { inserts_.give_up_turn(); }

  /// Whether `commit` or `poll_end` of a writer that polls found no room because the disk is full.
  [[nodiscard]] bool lacks_disk() const noexcept { return chunk_.lacks_disk(); }
  [[nodiscard]] buffer::BufferCore& buffer() const noexcept { return *core_; }

 private:
  [[nodiscard]] std::uint64_t take_episode_id() noexcept;
  void decide(End end, std::span<const float> priorities) noexcept;
  bool decide_step(std::uint32_t back, std::uint32_t length, End end, float priority) noexcept;
  [[nodiscard]] storage::ItemHeader header(std::uint32_t row, std::uint32_t back,
                                           std::uint32_t length, End end) const noexcept;
  void end_truncated(bool can_decide) noexcept;
  void note_step(End end) noexcept;
  void end_in_stream(std::uint32_t final_row) noexcept;
  void end_stream() noexcept;
  [[nodiscard]] bool is_final(std::uint32_t row) const noexcept {
    return core_->layout().stream_rows().of(chunk_.at(row)) == storage::StreamRow::Final;
  }
  void point_at_rows() noexcept;
  [[nodiscard]] std::optional<CommitStatus> wait_for_room();
  [[nodiscard]] bool wait_to_decide() noexcept;

  const std::shared_ptr<buffer::BufferCore> core_;
  const std::size_t slot_;
  const bool polls_;

  OpenChunk chunk_;
  std::uint32_t finals_ = 0;  ///< Final rows between the first open step and the current row.
  BookedInserts inserts_;
  const OpenStates states_;
};

}  // namespace reprise::writer
