#pragma once

#include <reprise/detail/row_view.hpp>
#include <reprise/window.hpp>
#include <reprise/writer.hpp>

#include "base/life.hpp"
#include "base/one_thread.hpp"
#include "buffer/format.hpp"
#include "buffer/selectors.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stop_token>

namespace reprise::writer {

/// What all writers share, wherever their steps go: the episode under way, and every check of a
/// step before it is taken. `WriterCore` has its rows in the chunks of a buffer of this process,
/// `process::RingWriter` in memory from which the process of the buffer takes them,
/// `PackingWriter` of `src/remote` in its own, from which it packs each step.
///
/// An open step is a committed step whose window is not complete, whether an item is to begin with
/// it or not.
///
/// One thread at a time.
class StepWriter : public detail::RowView {
 public:
  /// What steps are checked against. All of it has to outlive the writer.
  struct Rules {
    const buffer::Format& format;
    const buffer::Selectors& selectors;
    const base::Life& life;
  };
  StepWriter(const Rules& rules, const WriterOptions& options);
  virtual ~StepWriter() = default;
  StepWriter(const StepWriter&) = delete;
  StepWriter& operator=(const StepWriter&) = delete;

  virtual void begin_episode() = 0;
  /// The part of `Writer::commit` after `check_commit`.
  CommitStatus take(End end, std::span<const float> priorities) {
    if (const auto field = format_.layout.version_field();
        field && (taken[kNow] >> *field & 1U) == 0) {
      std::memcpy(rows[kNow] + fields[*field].offset, &version_, sizeof(version_));
    }
    return commit(end, priorities);
  }
  /// Commits the current step, whose row is complete, the version of the policy included.
  virtual CommitStatus commit(End end, std::span<const float> priorities) = 0;
  /// `Writer::add_transitions` from number `done` on.
  virtual CommitStatus add_transitions(std::span<const End> ends,
                                       std::span<const detail::RawValue> values, std::size_t& done);

  [[nodiscard]] std::size_t completing(End end) const noexcept;
  /// Throws for whatever `Writer::commit` refuses; changes nothing.
  void check_commit(End end, std::span<const float> priorities) const;
  // NOLINTNEXTLINE(modernize-use-nodiscard): may be called for what it throws alone.
  std::size_t check_episode(std::size_t steps, End end, std::span<const float> priorities,
                            std::size_t done = 0) const;
  /// Throws unless there is one priority for each item decided, or none if all selectors have a
  /// rule for new items.
  void check_priority_count(std::size_t items, std::size_t priorities) const;
  /// Throws as `Writer::commit` for a call that decides `items` items.
  void check_priorities(std::size_t items, std::span<const float> priorities) const;
  /// How many items an episode of `steps` steps decides, whose last step has this end. The writer
  /// has already committed the first `done` of the steps.
  [[nodiscard]] std::size_t count_decided(std::size_t steps, End end,
                                          std::size_t done) const noexcept;
  /// Throws unless every field is given once, and every observation once more as next, each with
  /// its own shape.
  void check_values(std::span<const detail::RawValue> values) const;
  /// Throws for values out of range in the rows from number `first` on, and in a forked child.
  void check_rows(std::size_t count, std::span<const detail::RawValue> values,
                  std::size_t first) const;

  base::OneThread one_thread;  ///< The calls of `Writer` enter it.

  void set_timeout(std::chrono::nanoseconds timeout) noexcept { timeout_ = timeout; }
  /// Throws std::invalid_argument for a version below 0, and for a schema without one.
  void set_version(std::int64_t version);
  [[nodiscard]] bool in_episode() const noexcept { return rows[kNow] != nullptr; }
  [[nodiscard]] std::uint64_t episode() const noexcept { return episode_; }
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] const buffer::Format& format() const noexcept { return format_; }
  [[nodiscard]] const Schema& schema() const noexcept { return format_.schema; }

 protected:
  /// Begins an episode, of whose first step nothing is written yet.
  void start_episode(std::uint64_t episode) noexcept {
    episode_ = episode;
    stream_position_ += format_.window.continues() ? position_ : 0;
    position_ = 0;
    close_steps();
    from_transitions_ = false;
    taken[kNow] = taken[kNext] = 0;
  }
  /// Goes on to the next step after a commit with `End::Continue`: the next observation becomes the
  /// current one.
  void go_on() noexcept {
    taken[kNow] = format_.layout.observation_mask();
    taken[kNext] = 0;
  }
  /// Ends the episode, so that there are no rows to write to.
  void leave_episode() noexcept {
    close_steps();
    rows[kNow] = rows[kNext] = nullptr;
  }
  /// The number of the current step in its stream; without streams, in its episode.
  [[nodiscard]] std::uint64_t number() const noexcept { return stream_position_ + position_; }
  /// Whether an item begins with the step `back` steps before the current one.
  [[nodiscard]] bool begins_item(std::uint32_t back, std::uint32_t length, End end) const noexcept {
    return format_.window.every_step() ||
           format_.window.begins_item(number() - back, length, end != End::Continue);
  }
  /// Whether an item may begin with the step at this position, which then keeps its states.
  [[nodiscard]] bool keeps_states(std::uint64_t position) const noexcept {
    return position % format_.window.item_every() == 0;
  }

  const buffer::Format& format_;
  std::chrono::nanoseconds timeout_;
  const std::stop_token stop_;
  WaitHook* const hook_;
  std::uint32_t open_ = 0;  ///< Open steps, fewer than a whole window has.
  std::uint64_t episode_ = 0;
  std::uint64_t position_ = 0;  ///< Steps committed in the episode.
  std::int64_t version_ = 0;    ///< The version of the policy.

 private:
  /// Called when an episode ends: no step stays open, except in a stream.
  void close_steps() noexcept { open_ = format_.window.continues() ? open_ : 0; }

  // Checks; none changes anything.
  static void check_end(End end);
  void check_step() const;
  void check_discount(const void* given) const;
  void check_version(const void* given) const;
  /// Out of line: inlined, it costs every append a third more.
  [[gnu::noinline]] void check_unwritten(std::uint64_t missing_now,
                                         std::uint64_t missing_next) const;
  /// Out of line: not every buffer asks for it.
  [[gnu::noinline]] void check_finite() const;
  /// `transition`: its number among those of `add_transitions`.
  void check_finite(bool next, std::size_t field, const void* values,
                    std::optional<std::size_t> transition = std::nullopt) const;

  const buffer::Selectors& selectors_;
  const base::Life& life_;
  const bool needs_priorities_;    ///< Some selector has no rule of its own for new items.
  bool from_transitions_ = false;  ///< Whether add_transition took a step of this episode.
  std::uint64_t stream_position_ =
      0;  ///< Steps of the stream before this episode; 0 without streams.
};

}  // namespace reprise::writer
