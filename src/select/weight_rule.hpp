#pragma once

#include <reprise/selectors/loss_adjusted.hpp>
#include <reprise/selectors/proportional.hpp>
#include <reprise/selectors/uniform.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace reprise::select {

/// The largest exponent, and the names of the values of `InitialPriority`.
inline constexpr float kMaxAlpha = 8.0F;
inline constexpr std::string_view kInitials[] = {"maximum_in_buffer", "highest_seen", "constant",
                                                 "from_caller"};

/// Weighs as `rule` does, and makes every weight finite and at least 0 (I4), and none denormal,
/// because the priorities may have been checked with another exponent, and a user's rule may return
/// anything. A denormal priority counts as 2^-126, so that weights are the same on threads that
/// take denormal numbers for 0; marks count as 0. The spans may be the same memory.
void weigh_all(const SelectorRule& rule, std::span<const float> priorities,
               std::span<float> weights) noexcept;

/// The highest weight ever seen, from a checkpoint, whatever number that has: at most the largest
/// float, and not denormal.
[[nodiscard]] float highest_seen_of(double stored) noexcept;

/// A number that one thread sets while others read it. A copy has the value of that moment, and
/// does not follow later changes.
///
/// Relaxed: the number guards no other data. It is set with all shards' locks held, so a thread
/// with one of these locks reads the present value. A thread without a lock may read an earlier
/// value; `WeightRule` says why that is harmless.
// NOLINTNEXTLINE(cppcoreguidelines-special-member-functions): a move is a copy.
class Adjustable {
 public:
  Adjustable(float value) noexcept : value_(value) {}  // NOLINT(google-explicit-constructor)
  ~Adjustable() = default;
  Adjustable(const Adjustable& other) noexcept : value_(other.get()) {}
  Adjustable& operator=(const Adjustable&) = delete;
  [[nodiscard]] float get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(float value) noexcept { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<float> value_;
};

/// How raw priorities become weights: (priority + epsilon)^alpha; max(priority, 1)^alpha for
/// `LossAdjusted`; 1 for `Uniform`; or what a user's own rule says. Also the weight of an item that
/// came without a priority.
///
/// Any thread. Const except for the exponent, which is set with all shards' locks held. The buffer
/// has one rule, and each shard selector has its own copy. Without a lock the exponent of the
/// buffer's rule may be out of date. For a commit that is harmless, because the priorities are
/// weighed when they are ingested, and the weights clamped to finite numbers. It is harmless for
/// an update, because the update weighs again if it finds, with the lock in hand, that an exponent
/// was set.
class WeightRule final : public SelectorRule {
 public:
  /// The options must be in their ranges. Throws std::invalid_argument if a weight would not be
  /// finite; the message names the option and the strategy `name`.
  explicit WeightRule(const Proportional& options, const char* name = "Proportional");
  explicit WeightRule(const LossAdjusted& options);
  explicit WeightRule(const Uniform& options) noexcept;
  /// A rule that weighs by `other`, which must outlive it. New items without a priority get the
  /// largest weight in the buffer.
  explicit WeightRule(const SelectorRule* other) noexcept;

  void weigh(std::span<const float> priorities, std::span<float> weights) const noexcept override;
  [[nodiscard]] bool needs_caller() const noexcept override {
    return weighted_ && initial_ == InitialPriority::FromCaller;
  }
  [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(
      std::size_t leaves) const override;

  [[nodiscard]] std::optional<float> alpha() const noexcept override {
    return weighted_ ? std::optional(alpha_.get()) : std::nullopt;
  }
  /// Throws std::invalid_argument for an exponent with which the rule could not have been made.
  void check_alpha(float alpha) const override;
  /// Sets the exponent, also for the weight of new items without a priority.
  bool set_alpha(float alpha) noexcept override;

  /// False if updates of priorities change no weight.
  [[nodiscard]] bool weighted() const noexcept { return weighted_; }

  /// The weight of an item that came without a priority. `in_buffer` and `highest_seen` are the
  /// highest weights of all present items and of all items ever; 0 without such items.
  [[nodiscard]] float initial_weight(float in_buffer, float highest_seen) const noexcept;

  /// Computes the weights of a run of rows that enters a selector, from raw priorities; rows
  /// without an item get 0. Items enter one by one, and each updates both maxima for the next.
  void weigh_run(std::span<const float> priorities, std::span<float> weights, float& in_buffer,
                 float& highest_seen) const noexcept;

 private:
  const SelectorRule* other_ = nullptr;  ///< The rule that weighs instead, if not null.
  Adjustable alpha_ = 0.0F;
  float epsilon_ = 0.0F;
  float min_priority_ = 0.0F;  ///< Lower priorities count as this one.
  InitialPriority initial_ = InitialPriority::Constant;
  bool weighted_ = false;
  float initial_priority_ = 1.0F;     ///< The raw priority of new items if no maximum is used.
  Adjustable initial_weight_ = 1.0F;  ///< The weight of `initial_priority_`.
};

}  // namespace reprise::select
