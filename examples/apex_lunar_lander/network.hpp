#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace apex {

/// A dueling Q network (Wang et al., 2016) as one flat vector of parameters: two hidden layers,
/// then one linear head of 1 value and one advantage per action.
///
/// Each layer is a row-major [inputs, outputs] matrix followed by its biases, so that the learner's
/// tensors and the actors' plain loops are views of equal memory.
struct NetworkShape {
  struct Layer {
    std::size_t inputs;
    std::size_t outputs;
    std::size_t weights;  ///< Offset into the parameters.
    std::size_t biases;   ///< Offset into the parameters.
  };

  std::size_t observations;
  std::size_t hidden;
  std::size_t actions;

  [[nodiscard]] std::array<Layer, 3> layers() const noexcept;
  [[nodiscard]] std::size_t parameters() const noexcept;
};

/// The actors' forward pass, in plain loops over a copy of the parameters: no tensor library, no
/// allocation, nothing shared with the optimizer.
///
/// Thread safety: one thread at a time.
class ActorNetwork {
 public:
  explicit ActorNetwork(const NetworkShape& shape);

  [[nodiscard]] const NetworkShape& shape() const noexcept { return shape_; }

  /// What to compute with: `shape().parameters()` floats, to be filled by the caller.
  [[nodiscard]] std::span<float> parameters() noexcept { return parameters_; }

  /// Action values [B, actions] of observations [B, observations].
  void evaluate(std::span<const float> observations, std::span<float> values);

 private:
  void layer(std::size_t index, std::span<const float> in, std::span<float> out,
             bool rectified) const noexcept;

  NetworkShape shape_;
  std::array<NetworkShape::Layer, 3> layers_;
  std::vector<float> parameters_;
  std::array<std::vector<float>, 2> hidden_;
  std::vector<float> head_;
};

/// Index of the largest value, the first of equals.
[[nodiscard]] std::size_t best_action(std::span<const float> values) noexcept;

}  // namespace apex
