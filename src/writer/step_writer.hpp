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

/// The part that all writers share: the episode under way, and every check of a step before the
/// step is committed. The classes below it differ in where their rows are: `WriterCore` writes into
/// the chunks of a buffer of this process, `process::RingWriter` into memory from which another
/// process takes the rows, and `PackingWriter` of `src/remote` into its own memory, from which it
/// packs each step.
///
/// An open step is a committed step whose window is not complete yet, whether or not an item is to
/// begin with the step.
///
/// One thread at a time.
class StepWriter : public detail::RowView {
 public:
  /// What steps are checked against. All three have to outlive the writer.
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
  /// The part of `Writer::commit` after `check_commit`: writes the version of the policy into the
  /// current step, unless the user wrote one, and commits the step.
  CommitStatus stamp_and_commit(End end, std::span<const float> priorities) {
    if (const auto field = format_.layout.version_field();
        field && (taken[kNow] >> *field & 1U) == 0) {
      std::memcpy(rows[kNow] + fields[*field].offset, &version_, sizeof(version_));
    }
    return commit(end, priorities);
  }
  /// Commits the current step, whose row is complete and has the version of the policy.
  virtual CommitStatus commit(End end, std::span<const float> priorities) = 0;
  /// Implements `Writer::add_transitions`, from transition number `done` on.
  virtual CommitStatus add_transitions(std::span<const End> ends,
                                       std::span<const detail::RawValue> values, std::size_t& done);

  /// Implements `Writer::completing`.
  [[nodiscard]] std::size_t completing(End end) const noexcept;
  /// Throws for whatever `Writer::commit` refuses; changes nothing.
  void check_commit(End end, std::span<const float> priorities) const;
  /// Implements `Writer::check_episode`. The writer has already committed `done` of the steps.
  // NOLINTNEXTLINE(modernize-use-nodiscard): may be called for what it throws alone.
  std::size_t check_episode(std::size_t steps, End end, std::span<const float> priorities,
                            std::size_t done = 0) const;
  /// Throws for a number of priorities other than the number of items that are decided; 0 is also
  /// allowed if all selectors have a rule for new items.
  void check_priority_count(std::size_t items, std::size_t priorities) const;
  /// Throws what `Writer::commit` throws for the priorities of a call that decides `items` items.
  void check_priorities(std::size_t items, std::span<const float> priorities) const;
  /// How many items an episode of `steps` steps decides, the last of which has this end. `done` of
  /// them are committed already.
  [[nodiscard]] std::size_t count_decided(std::size_t steps, End end,
                                          std::size_t done) const noexcept;
  /// Throws unless `values` has every field once, and every observation once more as next, each
  /// with the field's shape.
  void check_values(std::span<const detail::RawValue> values) const;
  /// Throws for values out of range in transitions [first, count), and in a forked child.
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
  /// Begins an episode. Nothing of its first step counts as written.
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
  /// Ends the episode: until the next one begins, the writer has no rows.
  void leave_episode() noexcept {
    close_steps();
    rows[kNow] = rows[kNext] = nullptr;
  }
  /// The number of the current step in its stream; without streams, in its episode.
  [[nodiscard]] std::uint64_t step_number() const noexcept { return stream_position_ + position_; }
  /// Whether an item begins with the step `back` steps before the current one, whose window has
  /// `length` steps, if the current step has this end.
  [[nodiscard]] bool begins_item(std::uint32_t back, std::uint32_t length, End end) const noexcept {
    return format_.window.every_step() ||
           format_.window.begins_item(step_number() - back, length, end != End::Continue);
  }
  /// Whether an item may begin with the step at this position, so that its states are needed.
  [[nodiscard]] bool needs_states(std::uint64_t position) const noexcept {
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
  /// Leaves no step open, except in a stream, which goes on across the ends of episodes.
  void close_steps() noexcept { open_ = format_.window.continues() ? open_ : 0; }

  // Checks, which change nothing.
  static void check_end(End end);
  void check_step() const;
  void check_discount(const void* value) const;
  void check_version(const void* value) const;
  /// Not inlined, because every append would take a third longer.
  [[gnu::noinline]] void check_unwritten(std::uint64_t missing_now,
                                         std::uint64_t missing_next) const;
  /// Not inlined, because only buffers with `require_finite` call it.
  [[gnu::noinline]] void check_finite() const;
  /// `transition`: the number of the step among those of `add_transitions`, for the message.
  void check_finite(std::size_t step, std::size_t field, const void* values,
                    std::optional<std::size_t> transition = std::nullopt) const;

  const buffer::Selectors& selectors_;
  const base::Life& life_;
  const bool needs_priorities_;        ///< Some selector has no rule of its own for new items.
  bool from_transitions_ = false;      ///< Whether add_transition took a step of this episode.
  std::uint64_t stream_position_ = 0;  ///< Steps before this episode in its stream, if any.
};

}  // namespace reprise::writer
