#pragma once

#include <reprise/detail/batch_view.hpp>
#include <reprise/item.hpp>
#include <reprise/schema.hpp>
#include <reprise/window.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

namespace reprise {

namespace window {
struct BatchAccess;
}

/// The stack of each item of a batch: `stacks[i]` belongs to item i, oldest frame first. With
/// sequences `stacks[i]` holds the stacks of all steps, [T, F, S], or with unique frames their
/// frames, [T + F - 1, S].
template <class T>
class Stacks {
 public:
  /// Made by `Batch`.
  explicit Stacks(const detail::BatchView::Stacks& view) noexcept : view_(view) {}
  /// Items in the batch.
  [[nodiscard]] std::size_t size() const noexcept { return view_.items; }
  /// The stack at step t of item i of a sequence, oldest frame first. t is below T; with
  /// `Transitions` it is 0.
  [[nodiscard]] std::span<T> at(std::size_t i, std::size_t t) const noexcept {
    return (*this)[i].subspan(t * view_.step_bytes / sizeof(T), view_.step_stack_bytes / sizeof(T));
  }
  /// The frames of one stack, oldest first.
  [[nodiscard]] std::span<T> operator[](std::size_t i) const noexcept {
    const std::size_t begin =
        view_.begins != nullptr ? std::min(view_.begins[i], view_.last) * view_.frame_bytes : 0;
    return {reinterpret_cast<T*>(view_.first + i * view_.stride_bytes + begin),
            view_.stack_bytes / sizeof(T)};
  }

 private:
  detail::BatchView::Stacks view_;
};

/// A batch of items as columns: one contiguous row-major tensor per field, B items first.
///
/// With `Transitions`, an observation of shape S is [B, S], or [B, F, S] with frame_stack F > 1,
/// oldest frame first. Other columns are [B, S]. With sequences of T = burn_in + length steps every
/// field is [B, T, S], oldest step first, but an observation with frame_stack F > 1 is [B, T, F,
/// S], and a recurrent state is [B, S]. Elements are the learner's own copy and may be changed in
/// place. Spans stay valid as long as the batch, their contents until the next `sample` into it. A
/// handle of another schema throws `std::invalid_argument`.
///
/// Thread safety: one thread at a time. Lifetime: independent of sampler and buffer, but the memory
/// resource that the batch was made with must outlive the batch.
class Batch {
 public:
  /// Makes a batch of n items, at least 1, whose columns the caller fills, for example from a batch
  /// of another process; until then the contents are unspecified. In all else the batch equals one
  /// that a buffer of this schema and window makes. `unique_frames` and `memory`: see
  /// `SamplerOptions`.
  [[nodiscard]] static Batch of(const Schema& schema, const Window& window, std::size_t n,
                                bool unique_frames = false,
                                std::pmr::memory_resource* memory = nullptr);

  /// Items in the batch.
  [[nodiscard]] std::size_t size() const noexcept { return view_->size; }
  /// Items that the batch has memory for.
  [[nodiscard]] std::size_t capacity() const noexcept { return view_->capacity; }

  /// Whether observations are stored as `frames`, each once, instead of as `now` and `next`.
  [[nodiscard]] bool unique_frames() const noexcept { return view_->unique_frames; }

  /// The field at the item's own step t; with sequences, at steps t to t + T - 1, but a recurrent
  /// state only at t.
  template <Element T, Role R, bool Shaped>
  [[nodiscard]] std::span<T> now(Field<T, R, Shaped> field) const {
    return view_->column<T>(detail::BatchView::kNow, field);
  }
  /// The observation at t + length, to bootstrap the return from. With sequences, the observation
  /// after each step.
  template <Element T, bool Shaped>
  [[nodiscard]] std::span<T> next(Field<T, Role::Observation, Shaped> field) const {
    return view_->column<T>(detail::BatchView::kNext, field);
  }
  /// The n-step return of a reward, [B]; with sequences that of each step, [B, T], 0 beyond the
  /// item's last step. Throws `std::logic_error` for sequences without n_step.
  [[nodiscard]] std::span<float> returns(Reward field) const {
    return view_->column<float>(detail::BatchView::kReturns, field);
  }

  /// The frames of each item, each once, of a batch with `SamplerOptions::unique_frames`:
  /// [B, F + n_step, S], oldest first. The stack of `now` begins at frame 0 and that of `next` at
  /// frame `lengths()[i]`: n_step, or less where the episode ended sooner. After the frames of a
  /// shorter window its last frame is repeated. If a batch has unique frames and is not empty,
  /// `now` and `next` of an observation throw `std::logic_error`; if it does not have unique
  /// frames, `frames` throws that error.
  ///
  /// With sequences the shape is [B, F + T, S]: the stack of step t begins at frame t, and the
  /// stack of the observation after it at frame t + 1. The frames after those of a shorter item are
  /// zero bytes; the first stacks beyond the item's end still show its last frames.
  template <Element T, bool Shaped>
  [[nodiscard]] std::span<T> frames(Field<T, Role::Observation, Shaped> field) const {
    return view_->column<T>(detail::BatchView::kFrames, field);
  }
  /// The stacks of `now`, [F, S] each. With unique frames, stacks share frames, and what is written
  /// to a frame shows in all stacks that have it.
  template <Element T, bool Shaped>
  [[nodiscard]] Stacks<T> now_stacks(Field<T, Role::Observation, Shaped> field) const {
    return Stacks<T>(view_->stacks(detail::BatchView::kNow, AnyField(field)));
  }
  /// The stacks of `next`, in the same way.
  template <Element T, bool Shaped>
  [[nodiscard]] Stacks<T> next_stacks(Field<T, Role::Observation, Shaped> field) const {
    return Stacks<T>(view_->stacks(detail::BatchView::kNext, AnyField(field)));
  }

  /// The bytes of the same columns, for fields whose type is known only at run time.
  [[nodiscard]] std::span<std::byte> now(AnyField field) const {
    return view_->bytes(detail::BatchView::kNow, field);
  }
  /// The bytes of `next`. Throws `std::invalid_argument` unless the field is an observation.
  [[nodiscard]] std::span<std::byte> next(AnyField field) const {
    return view_->bytes(detail::BatchView::kNext, field);
  }
  /// The bytes of `returns`. Throws `std::invalid_argument` unless the field is a reward.
  [[nodiscard]] std::span<std::byte> returns(AnyField field) const {
    return view_->bytes(detail::BatchView::kReturns, field);
  }

  /// The bytes of `frames`. Throws `std::invalid_argument` unless the field is an observation.
  [[nodiscard]] std::span<std::byte> frames(AnyField field) const {
    return view_->bytes(detail::BatchView::kFrames, field);
  }
  /// The stacks as bytes, for fields whose type is known only at run time.
  [[nodiscard]] Stacks<std::byte> now_stacks(AnyField field) const {
    return Stacks<std::byte>(view_->stacks(detail::BatchView::kNow, field));
  }
  /// The stacks of `next`, in the same way.
  [[nodiscard]] Stacks<std::byte> next_stacks(AnyField field) const {
    return Stacks<std::byte>(view_->stacks(detail::BatchView::kNext, field));
  }

  /// Shape of `now(field)` and `next(field)`, batch and stack dimension included.
  template <Element T, Role R, bool Shaped>
  [[nodiscard]] std::vector<std::size_t> shape(Field<T, R, Shaped> field) const {
    return shape(AnyField(field));
  }
  /// The shape for a field whose type is known only at run time.
  [[nodiscard]] std::vector<std::size_t> shape(AnyField field) const {
    return view_->shape(field.index(), field.signature());
  }

  /// The factor for the value of `next`, [B]: discount^length, times the steps' own discounts; 0
  /// after a termination. **Gamma is in it**: do not multiply by `Transitions::discount` again.
  /// With sequences the factor is 1, or 0 if the item's last step terminated the episode.
  ///
  /// With sequences and an n_step the shape is [B, T]: step t of item i has the factor for the
  /// value of the item's observation min(t + n_step, lengths()[i]). Observation 0 is the first one
  /// of `now`, and observation k > 0 is number k - 1 of `next`. The factor is 0 beyond the item's
  /// last step. With `SequenceEnd::Continue`, if an episode ends sooner, the factor is for that
  /// episode's last observation: the one after the first step from t on that is `terminated` or
  /// `truncated`.
  [[nodiscard]] std::span<float> discounts() const {
    return {view_->discounts, size() * view_->targets};
  }
  /// Importance weights, [B]: (N * P(i))^-beta, normalised as the call asked.
  [[nodiscard]] std::span<float> weights() const { return {view_->weights, size()}; }
  /// P(i), [B]: the probability with which one draw of this call picked this item. With
  /// `Options::max_times_sampled` that is the probability when the batch began. Items that the
  /// batch exhausts (draws as often as allowed) are then drawn no more, and others the more often:
  /// where few items have much of the weight, sums over the batch divided by n * P(i) may be
  /// several times too large. With `Draws::WithoutReplacement`, which draws no item twice, such
  /// sums are right with a limit too.
  [[nodiscard]] std::span<double> probabilities() const { return {view_->probabilities, size()}; }
  /// Keys for `SelectorHandle::update`, [B].
  [[nodiscard]] std::span<ItemKey> keys() const { return {view_->keys, size()}; }
  /// The keys' bits as signed integers, for a tensor, [B].
  [[nodiscard]] std::span<const std::int64_t> keys_int64() const;
  /// Id of the item's episode, [B].
  [[nodiscard]] std::span<std::uint64_t> episode_ids() const { return {view_->episodes, size()}; }
  /// Position of the item's step in its episode, from 0, [B].
  [[nodiscard]] std::span<std::uint64_t> positions() const { return {view_->positions, size()}; }
  /// Number of steps of the item, [B]: 1 to n_step for a return, 1 to T for a sequence. 0: no item,
  /// see `ReplayBuffer::gather`.
  [[nodiscard]] std::span<std::uint32_t> lengths() const { return {view_->lengths, size()}; }
  /// Whether each step of an item is the first of its episode, [B, T], with
  /// `SequenceEnd::Continue`; `std::logic_error` for other windows.
  [[nodiscard]] std::span<bool> is_first() const { return view_->stream_column(view_->is_first); }
  /// Whether each step terminated its episode; shape and errors as `is_first`.
  [[nodiscard]] std::span<bool> terminated() const {
    return view_->stream_column(view_->terminated);
  }
  /// Whether each step truncated its episode; shape and errors as `is_first`.
  [[nodiscard]] std::span<bool> truncated() const { return view_->stream_column(view_->truncated); }

 private:
  friend struct window::BatchAccess;
  explicit Batch(std::unique_ptr<detail::BatchView, detail::BatchDeleter> view) noexcept
      : view_(std::move(view)) {}

  std::unique_ptr<detail::BatchView, detail::BatchDeleter> view_;
};

}  // namespace reprise
