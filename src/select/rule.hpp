#pragma once

#include <reprise/selector.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace reprise::select {

class ShardSelector;

/// The stateless half of a selector: how raw priorities become weights. Const after construction,
/// so any thread.
class Rule {
 public:
  /// std::invalid_argument naming the option, its value and what is allowed.
  explicit Rule(const Selector& options);

  /// Raw priorities, finite and at least 0, to weights. In and out may be the same.
  void weigh(std::span<const float> priorities, std::span<float> weights) const noexcept;

  /// Whether the weight of a priority is finite.
  [[nodiscard]] bool weighable(float priority) const noexcept;

  /// False if updates of priorities change no weight.
  [[nodiscard]] bool weighted() const noexcept { return weighted_; }

  /// Whether a commit has to bring priorities.
  [[nodiscard]] bool needs_caller() const noexcept {
    return weighted_ && initial_ == InitialPriority::FromCaller;
  }

  /// The weight of an item that came without a priority. `in_buffer` and `ever` are the highest
  /// weight among all items now and ever, 0 if there is none.
  [[nodiscard]] float initial_weight(float in_buffer, float ever) const noexcept;

  /// The half that belongs to one shard and is called under its lock.
  [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_half(std::size_t leaves) const;

 private:
  float alpha_ = 0.0F;
  float epsilon_ = 0.0F;
  InitialPriority initial_ = InitialPriority::Constant;
  bool weighted_ = false;
  float initial_weight_ = 1.0F;  ///< Of the constant, or of priority 1 where there is no maximum.
};

}  // namespace reprise::select
