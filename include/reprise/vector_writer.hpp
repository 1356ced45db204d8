#pragma once

#include <reprise/replay_buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace reprise {

/// Who begins the episode after one that ended, and where its first observations are.
enum class AutoReset : std::uint8_t {
  /// The simulator, in the step that ended the episode: next observations are those after the
  /// reset, and the final ones are given apart.
  SameStep,
  /// The simulator, in the step after it, of which action, reward and end mean nothing: its next
  /// observations are the first ones of the new episode.
  NextStep,
  Disabled,  ///< The caller, by `VectorWriter::begin` or `now`.
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
/// A simulator that resets its environments by itself says so (`AutoReset`), and has one call for
/// all of that:
///
/// ```
/// VectorWriter writers(replay, 8, {}, AutoReset::NextStep);
/// writers.begin(first);                           // AnyValues of [E, ...] arrays
/// for (;;) {
///   writers.append(ends, step);                   // columns, and observations as next
/// }
/// ```
/// Where a simulator steps a part of its environments at a time, `choose` says which: row i of the
/// arrays after it belongs to the i-th environment chosen.
///
/// Thread safety: one thread at a time. Cost: that of E writers.
class VectorWriter {
 public:
  /// Takes `environments` of the buffer's writers. Errors as for `ReplayBuffer::writer`.
  VectorWriter(ReplayBuffer& buffer, std::size_t environments, const WriterOptions& options = {},
               AutoReset auto_reset = AutoReset::Disabled);

  /// One writer for each environment, at least one, all of one buffer and each outside an episode.
  explicit VectorWriter(std::vector<Writer> writers, AutoReset auto_reset = AutoReset::Disabled);

  /// Number of environments.
  [[nodiscard]] std::size_t size() const noexcept { return writers_.size(); }
  /// The writer of one environment.
  [[nodiscard]] Writer& operator[](std::size_t environment) { return writers_[environment]; }

  /// Rows of the calls that follow are of these environments, E of them or fewer, in this sequence,
  /// until `choose` or `choose_all` is called again. At first all are chosen. The calls below say E
  /// for the number chosen, and environment e for the e-th of them. If it chooses others than
  /// before, or in another sequence, the next commit repeats none. Throws `std::invalid_argument`
  /// for a number that is no environment's, or comes twice; then nothing is changed.
  void choose(std::span<const std::size_t> environments);
  /// Chooses all environments, in the sequence of their numbers.
  void choose_all();
  /// Until the next call of either.
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
  /// Likewise for next observations.
  void next(AnyField field, std::span<const std::byte> values);

  /// Takes first observations, which environments within an episode ignore. Their writers begin
  /// episodes where they have none. Errors: `std::invalid_argument` for what is no observation, and
  /// for arrays of another size.
  void begin(std::span<const AnyValue> observations);
  /// For `AutoReset::NextStep`, where the simulator was told to reset the chosen environments:
  /// their episodes end as truncated, and the next `append` of each is its reset. Errors:
  /// `std::invalid_argument` with another one.
  void await_resets();
  /// Whether an environment has the first observations of its episode, or steps of it: not behind
  /// an end, until somebody gives the first observations of the next episode.
  [[nodiscard]] bool in_episode(std::size_t environment) const noexcept;
  /// Whether the next `append` of an environment is its reset, which takes no step.
  [[nodiscard]] bool resetting(std::size_t environment) const noexcept;

  /// Appends one step of every environment, as `AutoReset` tells what its rows are: columns and
  /// recurrent states, [E, ...], and observations as next ones. With `SameStep` `finals` are the
  /// final observations, [E, ...], of which only rows of environments that end are read; it may be
  /// empty where none does. An environment that is being reset takes no step and no priorities.
  ///
  /// Answers, waits, repeats and errors as for `commit`, and `std::invalid_argument` for an
  /// observation that is not given as next, for final ones that are missing, and for any where
  /// `AutoReset` has none apart.
  CommitStatus append(std::span<const End> ends, std::span<const AnyValue> values,
                      std::span<const AnyValue> finals = {},
                      std::span<const float> priorities = {});

  /// Items that a commit with these arguments would decide in all, environment by environment: the
  /// number and order of the priorities that `commit` takes.
  [[nodiscard]] std::size_t completing(std::span<const End> ends,
                                       std::span<const bool> resets = {}) const;

  /// Commits one step of every environment; those that ended begin a new episode.
  ///
  /// `Committed`: the steps of all environments are taken. Any other answer is that of an
  /// environment whose step is not (`Stopped` before `TimedOut`); the steps of others may be.
  /// Repeat the call with the same arguments before you write anything else: it goes on with those
  /// that were not taken, and takes none twice. A commit of one of the writers alone in between
  /// makes it a new call. Each environment waits up to the timeout; once one is `Stopped` or
  /// `Closed`, the rest do not wait.
  ///
  /// `resets`: none, which are those of `resetting`, or one flag for each environment: one that the
  /// simulator was resetting takes no step and no priorities. Its next observation goes to `now`
  /// before its next step. Errors as for `Writer::commit`, all but a full disk found before any
  /// step is taken; after that one, repeat the call likewise.
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
  // Gives the elements of one row.
  [[nodiscard]] std::size_t check_rows(std::size_t index, std::uint32_t signature,
                                       std::size_t elements) const;
  /// The flags of a call that gives none.
  [[nodiscard]] std::span<const bool> own_resets(std::span<const bool> resets) const;
  void write_finals(std::span<const End> ends, std::span<const AnyValue> finals);
  void begin_episodes(std::span<const End> ends, std::span<const AnyValue> values);
  void note_steps() noexcept;
  [[nodiscard]] bool repeated() const noexcept;

  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  AutoReset auto_reset_;
  std::uint64_t observations_ = 0;  ///< Bit i: field i is one.
  std::vector<Writer> writers_;
  std::vector<std::uint64_t> reset_in_;  ///< The episode in which an environment awaits its reset.
  mutable std::unique_ptr<bool[]> resets_;  ///< Scratch: of each row.
  std::vector<std::size_t> chosen_;         ///< The environment of each row.
  std::vector<bool> named_;                 ///< Scratch of `choose`: environments that it has met.
  // A commit that is to be repeated:
  std::vector<std::size_t> first_;  ///< Where the priorities of each row begin, and the end.
  std::vector<bool> taken_;         ///< Rows whose steps are taken.
  /// Where it left each environment, episode and steps; empty if it was whole.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> steps_;
};

}  // namespace reprise
