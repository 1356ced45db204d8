#include "network.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace apex {
namespace {

/// Outputs computed together: their sums stay in registers while the inputs go by.
constexpr std::size_t kTile = 16;

template <bool Full>
void multiply_tile(std::span<const float> in, const float* weights, std::size_t outputs,
                   std::size_t width, std::array<float, kTile>& sums) noexcept {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const float* const row = weights + i * outputs;
    for (std::size_t o = 0; o < (Full ? kTile : width); ++o) {
      sums[o] += in[i] * row[o];
    }
  }
}

}  // namespace

std::array<NetworkShape::Layer, 3> NetworkShape::layers() const noexcept {
  std::array<Layer, 3> result = {
      {{observations, hidden, 0, 0}, {hidden, hidden, 0, 0}, {hidden, 1 + actions, 0, 0}}};
  std::size_t offset = 0;
  for (Layer& layer : result) {
    layer.weights = offset;
    layer.biases = layer.weights + layer.inputs * layer.outputs;
    offset = layer.biases + layer.outputs;
  }
  return result;
}

std::size_t NetworkShape::parameters() const noexcept {
  const Layer last = layers().back();
  return last.biases + last.outputs;
}

ActorNetwork::ActorNetwork(const NetworkShape& shape)
    : shape_(shape),
      layers_(shape.layers()),
      parameters_(shape.parameters()),
      head_(1 + shape.actions) {
  hidden_.fill(std::vector<float>(shape.hidden));
}

void ActorNetwork::layer(std::size_t index, std::span<const float> in, std::span<float> out,
                         bool rectified) const noexcept {
  const NetworkShape::Layer& layer = layers_[index];
  for (std::size_t first = 0; first < layer.outputs; first += kTile) {
    const std::size_t width = std::min(kTile, layer.outputs - first);
    std::array<float, kTile> sums = {};
    std::copy_n(parameters_.data() + layer.biases + first, width, sums.data());
    const float* const weights = parameters_.data() + layer.weights + first;
    if (width == kTile) {
      multiply_tile<true>(in, weights, layer.outputs, width, sums);
    } else {
      multiply_tile<false>(in, weights, layer.outputs, width, sums);
    }
    for (std::size_t o = 0; o < width; ++o) {
      out[first + o] = rectified ? std::max(sums[o], 0.0F) : sums[o];
    }
  }
}

void ActorNetwork::evaluate(std::span<const float> observations, std::span<float> values) {
  const std::size_t batch = observations.size() / shape_.observations;
  assert(observations.size() == batch * shape_.observations);
  assert(values.size() == batch * shape_.actions);
  for (std::size_t b = 0; b < batch; ++b) {
    layer(0, observations.subspan(b * shape_.observations, shape_.observations), hidden_[0], true);
    layer(1, hidden_[0], hidden_[1], true);
    layer(2, hidden_[1], head_, false);
    const auto advantages = std::span<const float>(head_).subspan(1);
    const float mean = std::accumulate(advantages.begin(), advantages.end(), 0.0F) /
                       static_cast<float>(advantages.size());
    for (std::size_t a = 0; a < shape_.actions; ++a) {
      values[b * shape_.actions + a] = head_[0] + advantages[a] - mean;
    }
  }
}

std::size_t best_action(std::span<const float> values) noexcept {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace apex
