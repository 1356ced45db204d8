#pragma once

#include <reprise/selectors/proportional.hpp>
#include <reprise/selectors/uniform.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace reprise::select {

/// How raw priorities become weights: (priority + epsilon)^alpha, or 1 for `Uniform`; and what an
/// item weighs that came without one. Const after construction, so any thread.
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
  float alpha_ = 0.0F;
  float epsilon_ = 0.0F;
  InitialPriority initial_ = InitialPriority::Constant;
  bool weighted_ = false;
  float initial_weight_ = 1.0F;  ///< Of the constant, or of priority 1 where there is no maximum.
};

}  // namespace reprise::select
