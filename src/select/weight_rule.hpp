#pragma once

#include <reprise/selectors/proportional.hpp>
#include <reprise/selectors/uniform.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

namespace reprise::select {

/// A number that one thread sets while others read it; a copy keeps what it was then.
///
/// Relaxed: nothing else is read by it. With a shard's lock in hand the value is the present one,
/// because it is set with all of them held. Who reads it without a lock may get the one before:
/// `WeightRule` says why that is harmless.
class Adjustable {
 public:
  Adjustable(float value) noexcept : value_(value) {}  // NOLINT(google-explicit-constructor)
  ~Adjustable() = default;
  Adjustable(const Adjustable& other) noexcept : value_(other.get()) {}
  Adjustable(Adjustable&& other) noexcept : value_(other.get()) {}
  Adjustable& operator=(const Adjustable& other) noexcept {
    set(other.get());
    return *this;
  }
  Adjustable& operator=(Adjustable&& other) noexcept {
    set(other.get());
    return *this;
  }
  [[nodiscard]] float get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(float value) noexcept { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<float> value_;
};

/// How raw priorities become weights: (priority + epsilon)^alpha, or 1 for `Uniform`; and what an
/// item weighs that came without one.
///
/// Any thread. Const but for the exponent, which is set with all shards' locks held. There is one
/// rule for the buffer and a copy of it in each shard's half, which is that shard's own. Without a
/// lock the buffer's may be read a moment too early: a commit that is checked so is weighed when it
/// is ingested, and clamped to what is finite; an update weighs with a copy, whose exponent stays,
/// and converts what it got once it has the lock.
class WeightRule final : public SelectorRule {
 public:
  /// std::invalid_argument naming the option of `name`, its value and what is allowed.
  explicit WeightRule(const Proportional& options, const char* name = "Proportional");
  explicit WeightRule(const Uniform& options) noexcept;

  void weigh(std::span<const float> priorities, std::span<float> weights) const noexcept override;
  [[nodiscard]] bool weighable(float priority) const noexcept override;
  [[nodiscard]] bool needs_caller() const noexcept override {
    return weighted_ && initial_ == InitialPriority::FromCaller;
  }
  [[nodiscard]] std::size_t bytes(std::size_t leaves) const noexcept override;
  [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_half(std::size_t leaves) const override;

  [[nodiscard]] float alpha() const noexcept { return alpha_.get(); }
  /// std::invalid_argument for an exponent with which the rule could not have been made.
  void check_alpha(float alpha) const;
  /// What has no priority weighs what it would have weighed with the new exponent.
  void set_alpha(float alpha) noexcept;
  /// Weights by this rule become those by another exponent, as in `tree::raise`; ones that are 0
  /// stay so. Not from an exponent of 0, but to the same.
  void convert(std::span<float> weights, float alpha) const noexcept;

  /// False if updates of priorities change no weight.
  [[nodiscard]] bool weighted() const noexcept { return weighted_; }

  /// The weight of an item that came without a priority. `in_buffer` and `ever` are the highest
  /// weight among all items now and ever, 0 if there is none.
  [[nodiscard]] float initial_weight(float in_buffer, float ever) const noexcept;

  /// Weights of a run of raw priorities that enters, 0 where no item begins. Items enter in their
  /// turn, so both maxima run along with them.
  void weigh_run(std::span<const float> priorities, std::span<float> weights, float& in_buffer,
                 float& highest_seen) const noexcept;

 private:
  Adjustable alpha_ = 0.0F;
  float epsilon_ = 0.0F;
  InitialPriority initial_ = InitialPriority::Constant;
  bool weighted_ = false;
  float unresolved_ = 1.0F;           ///< The constant, or priority 1 where there is no maximum.
  Adjustable initial_weight_ = 1.0F;  ///< Of that.
};

}  // namespace reprise::select
