#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

namespace reprise {

/// How a step ends. `Terminated` and `Truncated` are never merged into one flag.
enum class End : std::uint8_t {
  Continue,    ///< The episode goes on; next becomes now.
  Terminated,  ///< The environment ended it: the value of what follows is 0.
  Truncated,   ///< A limit cut it off: bootstrap from the final observation.
};

/// What a stack has in place of frames before the first step of an episode.
enum class StackStart : std::uint8_t {
  RepeatFirst,  ///< The first frame, repeated.
  Zeros,        ///< Zero bytes.
};

struct Transitions;
struct Sequences;
/// Which steps an item has.
using Window = std::variant<Transitions, Sequences>;
template <class Family>
class StrategyKind;

/// One item per step t: the stacked observation at t, the step's columns, the n-step return
/// R = sum over k < length of discount^k * reward[t + k], and the stacked observation at
/// t + length with discount^length to multiply its value by (0 after a termination).
///
/// The length is n_step, or less where the episode ends sooner (Sutton, 1988; multi-step DQN as
/// in Hessel et al., "Rainbow", 2018). With a `Discount` field, discount is multiplied by that
/// field's value at each step.
struct Transitions {
  std::uint32_t n_step = 1;       ///< Steps in a return, 1 to 65535.
  float discount = 0.99F;         ///< Gamma per step, in [0, 1].
  std::uint32_t frame_stack = 1;  ///< Observations stacked, oldest first, 1 to 65535.
  StackStart stack_start = StackStart::RepeatFirst;  ///< Frames before the first of an episode.

  /// Its name and options.
  [[nodiscard]] static StrategyKind<Window> window_kind();

  friend bool operator==(const Transitions&, const Transitions&) = default;
};

/// Treatment of the steps at the end of an episode with which no whole sequence begins.
enum class SequenceEnd : std::uint8_t {
  ZeroPad,  ///< Shorter items begin with them; missing steps are zero bytes.
  Drop,     ///< No items begin with them; an episode shorter than T has no item.
  /// One last item, which ends with the episode, and is whole unless the episode is shorter. An
  /// episode that no commit ended (its writer was destroyed, or began another one) has no such
  /// item, unless it is shorter.
  Overlap,
  /// Items go on with the next episode of their writer. They are taken from the writer's *stream*,
  /// all steps that it commits, from the first on: every `period` steps an item of T steps begins,
  /// and `Batch::is_first`, `terminated` and `truncated`, [B, T], say where episodes begin and end
  /// in the item (as in DreamerV3, Hafner et al., 2023).
  ///
  /// The observation after a step that ended its episode is the final observation of that episode,
  /// also where the item goes on. Stacks begin anew with each episode, and returns stop at its end.
  /// An item's episode, position and recurrent state are those of its first step. Every step needs
  /// a recurrent state, because an item may begin with any step. A stream ends with its writer, and
  /// in a checkpoint: the last steps, fewer than T, begin no item. An episode that no commit ended
  /// shows as truncated in items that go on beyond it, but not in an item whose last step is the
  /// episode's last, because that item was complete before.
  ///
  /// Refused: unique frames, mirrors on a device, a `StepPacker`, T above 32767, and fields with
  /// the names of the three columns. A chunk has at least 2 T + frame_stack steps. Cost: a byte per
  /// row (a row is rounded up to 8 bytes), which is read for each step drawn.
  Continue,
};

/// One item per `period` steps of an episode, or of all steps of a writer
/// (`SequenceEnd::Continue`): `burn_in + length` consecutive steps, T for short,
/// with every field, and the observation after each of them (recurrent replay as in Kapturowski et
/// al., "Recurrent Experience Replay in Distributed RL", R2D2, 2019). Neighbours overlap if the
/// period is shorter than T; a longer period leaves steps out. An item has the
/// `Schema::recurrent_state` of its first step.
///
/// Every step counts for the capacity, whether an item begins with it or not: a full buffer has
/// about capacity_steps / period items. Calls that need more items than that wait for ever: batches
/// of a `Queue`, in order, without replacement or with a limit of draws, and with such a limit
/// `min_size`. Items of at most burn_in steps are left out. An item of fewer than T steps has zero
/// bytes beyond its last step.
///
/// With frame_stack F > 1 each step shows the stack of the F last observations of its episode, also
/// those before the item's first step. Each observation is stored once. A batch with
/// `SamplerOptions::unique_frames` holds the T + F observations of an item once, and the stacks are
/// views of these; a batch without unique frames holds 2 T F observations per item.
///
/// Without n_step a batch has no returns; its discounts are 1, or 0 where the last step of the item
/// ended its episode by termination; a `Discount` field is a column like any other.
///
/// With n_step each step t of an item, also in the burn-in, has a return and a discount as one of
/// `Transitions` has: R = sum over k < m of discount^k * reward[t + k], and discount^m for the
/// value of the observation after those m steps, or 0 if a termination is among them. m is n_step,
/// or less at the end of the item, where R stops at the item's last step. So a network sees only
/// the item's own steps and the observation after them, and no step lacks a target. To learn from
/// whole returns alone, make `length` longer by n_step - 1 and leave out the targets of the last
/// n_step - 1 steps where the episode goes on. Costs O(T n_step) per item and reward.
struct Sequences {
  std::uint32_t length = 40;  ///< Steps to learn from, at least 1.
  std::uint32_t period = 20;  ///< Steps from one item's first to the next one's, at least 1.
  std::uint32_t burn_in = 0;  ///< Steps before the `length` steps; both are at most 65535 in all.
  SequenceEnd end = SequenceEnd::ZeroPad;  ///< Treats the last steps of an episode.
  std::uint32_t n_step = 0;                ///< Steps in a return, 0 (no returns) to 65535.
  float discount = 0.99F;                  ///< Gamma per step of a return, in [0, 1].
  std::uint32_t frame_stack = 1;           ///< Observations stacked at each step, 1 to 65535.
  StackStart stack_start = StackStart::RepeatFirst;  ///< Frames before the first of an episode.

  /// Its name and options.
  [[nodiscard]] static StrategyKind<Window> window_kind();

  friend bool operator==(const Sequences&, const Sequences&) = default;
};

/// The kinds of window, with their options. The place of a kind in the list is its number in
/// checkpoints.
[[nodiscard]] std::span<const StrategyKind<Window>> windows() noexcept;

// What follows from a window, for code that writes or reads whole episodes. These functions throw
// `std::invalid_argument` for a window that no buffer takes.

/// T if a batch has every step of an item (`Sequences`), 0 if it has only the first
/// (`Transitions`).
[[nodiscard]] std::uint32_t sequence_steps(const Window& window);
/// Whether items go on with the next episode of their writer (`SequenceEnd::Continue`).
[[nodiscard]] bool continues(const Window& window);
/// Whether a batch has returns.
[[nodiscard]] bool has_returns(const Window& window);
/// Items begin only with steps whose position in the episode is a multiple of this.
[[nodiscard]] std::uint32_t item_every(const Window& window);
/// The number of items that an episode has after `steps` steps: all of its items if the last commit
/// ended it, and with `End::Continue` those whose windows are complete. With
/// `SequenceEnd::Continue` this is right for the first episode of a stream. Each later one
/// completes an item for every multiple of the period, from the first step of the stream that has
/// no item yet, whose T steps are there.
[[nodiscard]] std::size_t items_of_episode(const Window& window, std::size_t steps, End end);

/// Options of `sequence_priorities`.
struct SequencePriorityOptions {
  float eta = 0.9F;         ///< Share of the largest error, 0 to 1; the rest is of the mean.
  std::size_t burn_in = 0;  ///< First steps of each item that do not count: the window's burn_in.
};

/// Computes priorities of sequences for `SelectorHandle::update`, [B], from TD errors, [B,
/// T] row-major. Item i gets eta * max + (1 - eta) * mean of the absolute errors of its steps
/// burn_in to lengths[i] - 1 (Kapturowski et al., "Recurrent Experience Replay in Distributed RL",
/// R2D2, 2019, section 2.3), or 0 if the item has no such steps. Other errors, such as padding, are
/// not read. `lengths` come from a batch; B is their count and T the count of errors over B.
///
/// A NaN or infinite error makes the priority NaN or infinite, and `update_priorities` refuses it
/// by its index.
///
/// Errors, found before anything is written: `std::invalid_argument` for eta outside 0 to 1, errors
/// that are no multiple of the lengths, a length above T, burn_in above T, or counts of lengths and
/// priorities that differ. Any thread. Cost: O(B T).
void sequence_priorities(std::span<const float> td_errors, std::span<const std::uint32_t> lengths,
                         std::span<float> priorities, const SequencePriorityOptions& options = {});

}  // namespace reprise
