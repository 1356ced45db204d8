#pragma once

#include <reprise/detail/row_view.hpp>
#include <reprise/rate_limiter.hpp>
#include <reprise/schema.hpp>
#include <reprise/window.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise {

class ReplayBuffer;

/// Values of a field as bytes, which must outlive the call: one for `Writer::add_transition`, or
/// the rows of an array.
struct AnyValue {
  AnyField field;     ///< The field that gets the bytes.
  bool next = false;  ///< True: an observation of the next step. False: a field of the current one.
  /// One step's elements, or the rows of all steps one after the other.
  std::span<const std::byte> bytes;
};

namespace detail {
struct Access;
struct WriterDeleter {
  void operator()(RowView* writer) const noexcept;
};
}  // namespace detail

/// Options of a writer.
struct WriterOptions {
  /// How long `commit` may wait for room for its step: for a free chunk, or for the rate limiter.
  std::chrono::nanoseconds timeout = kNoTimeout;
  /// Ends a wait of `commit` soon after stop is requested, from any thread. After that no commit
  /// waits, as with a timeout of 0; a step for which there is room is still committed.
  std::stop_token stop = {};  // NOLINT(readability-redundant-member-init): else g++ warns users.
  /// The hook, or null, is asked while a commit waits. It must outlive the writer. A commit whose
  /// wait the hook ends is `Stopped`.
  WaitHook* hook = nullptr;
};

/// The answers of `Writer::commit`. After `Committed` the step is taken; after any other answer it
/// is not, and the call may be repeated.
enum class CommitStatus : std::uint8_t {
  Committed,  ///< The step is taken.
  TimedOut,   ///< There was no room for the step within the timeout.
  Stopped,    ///< `WriterOptions::stop` or `hook` ended the wait for room.
  Closed,     ///< The buffer is closed.
};

/// One field's value for `Writer::add_transition`; made by `now(field, value)` and
/// `next(field, value)`. Refers to the value, which must outlive the call.
template <class FieldType, bool Next>
struct FieldValue {
  FieldType field;                                             ///< The field that gets the value.
  std::span<const typename FieldType::element_type> elements;  ///< One step's elements, row-major.
};

/// Names the value of a scalar field of the current step, for `Writer::add_transition`.
template <Element T, Role R>
[[nodiscard]] FieldValue<Field<T, R, false>, false> now(Field<T, R, false> field,
                                                        const std::type_identity_t<T>& value) {
  return {field, std::span(&value, 1)};
}
/// Names the value of a field with a shape, row-major.
template <Element T, Role R>
[[nodiscard]] FieldValue<Field<T, R, true>, false> now(
    Field<T, R, true> field, std::span<const std::type_identity_t<T>> value) {
  return {field, value};
}
/// Names the value of a scalar observation of the next step, for `Writer::add_transition`.
template <Element T>
[[nodiscard]] FieldValue<ScalarObservation<T>, true> next(ScalarObservation<T> field,
                                                          const std::type_identity_t<T>& value) {
  return {field, std::span(&value, 1)};
}
/// Names the value of an observation with a shape, row-major.
template <Element T>
[[nodiscard]] FieldValue<Observation<T>, true> next(
    Observation<T> field, std::span<const std::type_identity_t<T>> value) {
  return {field, value};
}

/// Appends the steps of one environment, written straight into the buffer's memory.
///
/// Thread safety: one thread at a time (builds with REPRISE_DCHECK detect overlapping calls).
/// Progress: every call is lock-free, except while no chunk is free or the rate limiter holds. Then
/// `commit` waits up to the timeout. `begin_episode` in an episode and the destructor wait up to a
/// second for a chunk, because they complete the open items of the episode. A slow or dead writer
/// stalls nobody else.
/// Lifetime: may outlive its buffer, which then reads as closed. Destroying a writer, or beginning
/// an episode within one, ends the episode as truncated at the last commit; a step that was not
/// committed was never there. Where no chunk can be had for a second, or the disk of a mapped file
/// is full, a destructor drops the steps whose windows were not complete. In a stream
/// (`SequenceEnd::Continue`) neither call waits, because neither completes an item.
class Writer {
 public:
  /// Starts an episode, whose first observation is then to be written through `now`. An episode
  /// under way ends as truncated. If ending it takes a new chunk of a mapped file and the disk is
  /// full, the call throws `std::system_error`; then the episode goes on, and the call can be
  /// repeated.
  void begin_episode();

  /// The current step's field: a reference to a scalar, a span over a shaped field (row-major).
  /// At the start of an episode its observations are to be written; after the first commit they
  /// have the values of `next`, and must not be changed. A recurrent state may be left out where no
  /// item can begin (`Schema::recurrent_state`). Valid until `commit` or `begin_episode`. Throws
  /// `std::logic_error` outside an episode.
  template <Element T, Role R, bool Shaped>
  [[nodiscard]] std::conditional_t<Shaped, std::span<T>, T&> now(Field<T, R, Shaped> field) {
    return rows_->access<detail::RowView::kNow>(field);
  }

  /// The next step's observation, to be written before `commit`; the final one if the step ends
  /// the episode.
  template <Element T, bool Shaped>
  [[nodiscard]] std::conditional_t<Shaped, std::span<T>, T&> next(
      Field<T, Role::Observation, Shaped> field) {
    return rows_->access<detail::RowView::kNext>(field);
  }

  /// The bytes of the same fields, if their type is known only at run time.
  [[nodiscard]] std::span<std::byte> now(AnyField field) {
    return rows_->access(detail::RowView::kNow, field);
  }
  /// The bytes of `next`. Throws `std::invalid_argument` unless the field is an observation.
  [[nodiscard]] std::span<std::byte> next(AnyField field) {
    return rows_->access(detail::RowView::kNext, field);
  }

  /// The number of items that a commit with this `end` would decide (whose windows it would
  /// complete), and so the number of priorities that it takes. With `Continue` it is 1 once the
  /// episode has n_step steps, else 0; with another end it is the number of all open items. With
  /// sequences only steps with which an item begins count.
  [[nodiscard]] std::size_t completing(End end) const;

  /// Checks the priorities for a whole episode of `steps` steps, as its commits would take them one
  /// after the other; `end` says how the last step ends. Throws as `commit` would; changes nothing.
  /// Returns the number of items that the episode decides.
  // NOLINTNEXTLINE(modernize-use-nodiscard): may be called for what it throws alone.
  std::size_t check_episode(std::size_t steps, End end, std::span<const float> priorities) const;

  /// Appends the current step; next becomes now. Each item whose window the step completes can be
  /// sampled at once. Waits for room only before it takes the step.
  ///
  /// `Committed`: the step is taken. `TimedOut`, `Stopped`, `Closed`: the step is not taken; what
  /// was written to `now` and `next` stays, and the call may be repeated, also with the step
  /// written anew. Without a timeout there is no `TimedOut`. Whatever the answer, views of `now`
  /// and `next` from before the call are invalid.
  ///
  /// `priorities`: none (the selectors' initial priority applies), or one raw priority for each
  /// item decided, oldest first; `completing` says how many.
  /// Errors: `std::logic_error` outside an episode or naming a field left unwritten,
  /// `std::invalid_argument` for an `end` that is no `End`, a discount outside [0, 1], a wrong
  /// number of priorities or a priority that is NaN, infinite or negative, and for what
  /// `Schema::require_finite` refuses; the step then stays as it was, and can be corrected and
  /// committed. With rows in a mapped file, `std::system_error` if there is no disk space for a new
  /// chunk and no used one comes free within 100 ms or the timeout, whichever is shorter: the step
  /// is not taken, and the call may be repeated.
  CommitStatus commit(End end = End::Continue, std::span<const float> priorities = {});

  /// Appends a transition (s, a, r, s', end) by itself: `add_transition(End::Continue, now(state,
  /// s), now(action, a), now(reward, r), next(state, s2))`.
  ///
  /// Answers and errors as for `commit`: unless the step is taken, repeat the call with the same
  /// values. Every field of the schema must be named, else `std::invalid_argument`. The call
  /// continues an episode of which such a call took a step, if `now` equals the last `next` byte
  /// for byte. Otherwise it truncates that episode and begins a new one, also if the step is then
  /// not taken. Cost: comparing and copying the observations; a transition that begins an episode
  /// takes two rows instead of one.
  template <class... Fields, bool... Next>
  CommitStatus add_transition(End end, const FieldValue<Fields, Next>&... values) {
    const detail::RawValue raw[] = {{values.field.index(), Next, detail::kSignature<Fields>,
                                     values.elements.data(), values.elements.size()}...};
    return add_raw_transition(end, raw);
  }

  /// Appends a transition of fields whose type is known only at run time.
  CommitStatus add_transition(End end, std::span<const AnyValue> values);

  /// Appends arrays of transitions, as an offline dataset has them, in the order of time: each
  /// value has one row for each of `ends`. Transitions are taken as by `add_transition`, from
  /// number `taken` on; `taken` rises with each. So unless the answer is `Committed`, repeat the
  /// call with the same arguments. Samplers see the transitions chunk by chunk, the last ones when
  /// the call returns.
  ///
  /// Errors as for `add_transition`, found for all transitions before the first is taken. But a
  /// selector with `InitialPriority::FromCaller` refuses the first transition that completes an
  /// item, after earlier ones were taken. `std::invalid_argument` for a `taken` above the number of
  /// transitions.
  CommitStatus add_transitions(std::span<const End> ends, std::span<const AnyValue> values,
                               std::size_t& taken);

  /// Appends one whole episode of `steps` steps as arrays, such as a recorded one: each field is
  /// named once, an observation with steps + 1 rows, the final one last, any other with one row for
  /// each step. An episode under way is ended first, as truncated. `end` is that of the last step;
  /// with `Continue` the episode goes on with `commit`. `priorities`: none, or one for each item
  /// that the episode decides, oldest first; `check_episode` says how many.
  ///
  /// Steps are taken from number `taken` on; `taken` is 0 for a new episode and rises with each
  /// step. So if the answer is not `Committed`, or the call throws `std::system_error`, repeat the
  /// call with the same arguments before anything else.
  ///
  /// Errors as for `commit`, found for all steps before the first is taken, and
  /// `std::invalid_argument` for 0 steps, a field that is missing, named twice or of another size,
  /// and a `taken` above 0 that is not what the writer's episode has.
  CommitStatus add_episode(std::size_t steps, End end, std::span<const AnyValue> values,
                           std::size_t& taken, std::span<const float> priorities = {});

  /// How long `commit` may wait from now on; see `WriterOptions::timeout`. Throws
  /// `std::invalid_argument` for a negative timeout.
  void set_timeout(std::chrono::nanoseconds timeout);

  /// The version of the policy that makes the steps committed from now on (`Schema::version`).
  /// Versions should rise as the policy changes, but need not. Errors: `std::invalid_argument` for
  /// a version below 0, and with a schema without a version.
  void set_version(std::int64_t version);

  /// True between `begin_episode` and the commit that ends the episode.
  [[nodiscard]] bool in_episode() const noexcept;
  /// Id of the current or last episode, unique in the buffer.
  [[nodiscard]] std::uint64_t episode_id() const noexcept;
  /// Steps committed to the current or last episode.
  [[nodiscard]] std::uint64_t episode_steps() const noexcept;

 private:
  friend struct detail::Access;
  explicit Writer(std::unique_ptr<detail::RowView, detail::WriterDeleter> rows) noexcept
      : rows_(std::move(rows)) {}
  CommitStatus add_raw_transition(End end, std::span<const detail::RawValue> values);

  std::unique_ptr<detail::RowView, detail::WriterDeleter> rows_;
};

/// Who begins the next episode after an end, and where its first observations are. `append` obeys
/// it; a loop of `now`, `next` and `commit` has to do so itself.
enum class AutoReset : std::uint8_t {
  /// The simulator resets in the step that ended the episode: the next observations are those after
  /// the reset, and the final ones are given separately.
  SameStep,
  /// The simulator resets in one more step, whose action, reward and end mean nothing, and whose
  /// next observations are the first ones of the new episode.
  NextStep,
  Disabled,  ///< The caller begins the episode, by `VectorWriter::begin` or `now`.
};

/// Appends for a vectorised simulator: one writer per environment, fed from [E, ...] arrays.
///
/// ```
/// writers.now(state, first);                      // [E, ...]: every episode begins
/// for (;;) {
///   simulator.step(actions);                      // next holds final observations where ended
///   writers.now(action, actions);
///   writers.now(reward, rewards);
///   writers.next(state, next);
///   writers.commit(ends);                         // those that ended begin a new episode
///   writers.now(state, after_reset);              // taken where an episode begins, else ignored
/// }
/// ```
/// For a simulator that resets its environments by itself (`AutoReset`), `append` does all of that:
///
/// ```
/// VectorWriter writers(replay, 8, {}, AutoReset::NextStep);
/// writers.begin(first);                           // AnyValues of [E, ...] arrays
/// for (;;) {
///   writers.append(ends, step);                   // columns, and observations as next
/// }
/// ```
/// Where a simulator steps a part of its environments at a time, `choose` names these: row i of the
/// arrays after it belongs to the i-th environment chosen.
///
/// Thread safety: one thread at a time. Cost: that of E writers.
class VectorWriter {
 public:
  /// Takes `environments` of the buffer's writers. Errors as for `ReplayBuffer::writer`.
  VectorWriter(ReplayBuffer& buffer, std::size_t environments, const WriterOptions& options = {},
               AutoReset auto_reset = AutoReset::Disabled);

  /// One writer for each environment, at least one, all of one buffer and each outside an episode.
  /// Errors: `std::invalid_argument` for none, for another schema or window than the first one's,
  /// within an episode, and for `AutoReset::NextStep` with a schema without observations.
  explicit VectorWriter(std::vector<Writer> writers, AutoReset auto_reset = AutoReset::Disabled);

  /// Number of environments.
  [[nodiscard]] std::size_t size() const noexcept { return writers_.size(); }
  /// The writer of one environment.
  [[nodiscard]] Writer& operator[](std::size_t environment) { return writers_[environment]; }

  /// Chooses the environments whose rows the following calls take, in this order, until `choose` or
  /// `choose_all` is called again. At first all are chosen. The calls below say E for the number of
  /// chosen environments, and environment e for the e-th of them. A commit after another choice
  /// never counts as the repetition of an earlier commit. Throws `std::invalid_argument` for a
  /// number without an environment, or a repeated number; then nothing is changed.
  void choose(std::span<const std::size_t> environments);
  /// Chooses all environments, in the order of their numbers.
  void choose_all();
  /// `Writer::set_version` of all environments, chosen or not.
  void set_version(std::int64_t version) {
    for (Writer& writer : writers_) {
      writer.set_version(version);
    }
  }
  /// The chosen environments, valid until the next `choose` or `choose_all`.
  [[nodiscard]] std::span<const std::size_t> chosen() const noexcept { return chosen_; }

  /// Copies row e of an [E, ...] array into environment e's current step. Observations are taken
  /// only by environments at the start of an episode: the others hold theirs already. Throws
  /// `std::invalid_argument` unless the array has E rows.
  template <Element T, Role R, bool Shaped>
  void now(Field<T, R, Shaped> field, std::span<const std::type_identity_t<T>> values) {
    const std::size_t row =
        check_rows(field.index(), detail::kSignature<Field<T, R, Shaped>>, values.size());
    for (const std::size_t e : chosen_) {
      if (!traits(R).has_next || writers_[e].episode_steps() == 0) {
        copy_row(writers_[e].now(field), values.first(row));
      }
      values = values.subspan(row);
    }
  }

  /// Copies row e of an [E, ...] array into environment e's next observation.
  template <Element T, bool Shaped>
  void next(Field<T, Role::Observation, Shaped> field,
            std::span<const std::type_identity_t<T>> values) {
    const std::size_t row = check_rows(
        field.index(), detail::kSignature<Field<T, Role::Observation, Shaped>>, values.size());
    for (const std::size_t e : chosen_) {
      copy_row(writers_[e].next(field), values.first(row));
      values = values.subspan(row);
    }
  }

  /// Takes E rows as bytes, for fields whose type is known only at run time.
  void now(AnyField field, std::span<const std::byte> values);
  /// Takes E rows of next observations as bytes.
  void next(AnyField field, std::span<const std::byte> values);

  /// Writes all first observations. With `AutoReset::Disabled` an environment whose episode has
  /// steps ignores its rows, so that a call may give rows for all environments. Otherwise the call
  /// says that the simulator was reset by hand: an episode with steps ends as truncated at its last
  /// step, which may wait up to a second, and another one begins. A commit after this call never
  /// counts as the repetition of an earlier commit. Errors: `std::invalid_argument` for a field
  /// that is no observation, a missing observation, and arrays of another size.
  void begin(std::span<const AnyValue> observations);
  /// Tells a writer with `AutoReset::NextStep` that the simulator will reset the chosen
  /// environments: their episodes end as truncated, and the next `append` of each is its reset.
  /// Errors: `std::invalid_argument` with another auto-reset.
  void await_resets();
  /// Whether an environment is in an episode: from its first observations to the step that ends it.
  [[nodiscard]] bool in_episode(std::size_t environment) const noexcept;
  /// Whether the next `append` of an environment is its reset, which takes no step.
  [[nodiscard]] bool resetting(std::size_t environment) const noexcept;

  /// Appends one step of every environment: columns and recurrent states, [E, ...], and next
  /// observations, which are what `AutoReset` says. With `SameStep`, `finals` are the final
  /// observations, [E, ...], of which only rows of environments that end are read; it may be empty
  /// if no environment ends. An environment that is being reset takes no step and no priorities.
  ///
  /// Answers, waits, repeats and errors as for `commit`; also `std::invalid_argument` for an
  /// observation that is not given as next, for missing final ones, and for final ones with another
  /// auto-reset.
  CommitStatus append(std::span<const End> ends, std::span<const AnyValue> values,
                      std::span<const AnyValue> finals = {},
                      std::span<const float> priorities = {});

  /// The number of items that a commit with these arguments would decide in all: `commit` takes as
  /// many priorities, environment by environment.
  [[nodiscard]] std::size_t completing(std::span<const End> ends,
                                       std::span<const bool> resets = {}) const;

  /// Commits one step of every environment; those that ended begin a new episode.
  ///
  /// `Committed`: the steps of all environments are taken. Any other answer is for an environment
  /// whose step is not taken (`Closed` and `Stopped` before `TimedOut`); other steps may be taken.
  /// Repeat the call with the same arguments before you write anything else: it takes the steps
  /// that were not taken, and none twice. But if one of the writers has committed by itself in
  /// between, the call is a new commit of all. Each environment waits up to the timeout; after
  /// `Stopped` or `Closed` the rest are not tried.
  ///
  /// Unlike `append`, `commit` notes no ends for an `AutoReset`: with `NextStep` give it the
  /// resets, with `SameStep` give `next` the final observations and `now` those after the reset.
  ///
  /// `resets`: none, for those of `resetting`, or one flag for each environment. An environment
  /// that the simulator was resetting takes no step and no priorities, and its next observation
  /// goes to `now` before its next step. Errors as for `Writer::commit`: all but a full disk are
  /// found before any step is taken, and after a full disk the call is to be repeated likewise.
  CommitStatus commit(std::span<const End> ends, std::span<const float> priorities = {},
                      std::span<const bool> resets = {});

 private:
  template <class T>
  static void copy_row(std::span<T> to, std::span<const T> from) {
    std::memcpy(to.data(), from.data(), from.size_bytes());
  }
  template <class T>
  static void copy_row(T& to, std::span<const T> from) {
    to = from.front();
  }
  [[nodiscard]] std::size_t check_bytes(AnyField field, std::size_t bytes) const;
  // Checks the number of rows, and returns the elements of one.
  [[nodiscard]] std::size_t check_rows(std::size_t index, std::uint32_t signature,
                                       std::size_t elements) const;
  /// The flags given, or, if there are none, those of `resetting` with `AutoReset::NextStep`.
  [[nodiscard]] std::span<const bool> resets_or_default(std::span<const bool> resets) const;
  void write_finals(std::span<const End> ends, std::span<const AnyValue> finals);
  void begin_episodes(std::span<const End> ends, std::span<const AnyValue> values);
  void record_steps() noexcept;
  [[nodiscard]] bool is_repeat() const noexcept;

  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  AutoReset auto_reset_;
  std::uint64_t observations_ = 0;  ///< Bit i: field i is an observation.
  std::vector<Writer> writers_;
  std::vector<std::uint64_t> reset_episodes_;  ///< Each environment's episode that awaits a reset.
  mutable std::unique_ptr<bool[]> resets_;     ///< Scratch of `resets_or_default`: a flag per row.
  std::vector<std::size_t> chosen_;            ///< The environment of each row.
  std::vector<bool> seen_;  ///< Scratch of `choose`: environments that it has met.
  // The commit that is to be repeated:
  std::vector<std::size_t> first_priority_;  ///< Index of each row's first priority; their number.
  std::vector<bool> taken_;                  ///< Rows whose steps were taken.
  /// Episode and steps of each environment after that commit; empty if all were taken.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> steps_;
};

}  // namespace reprise
