#pragma once

#include <reprise/reprise.hpp>

#include "rng.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::test {

/// One observation of the made-up world: a shaped field and a scalar of another size.
struct Frame {
  std::array<std::uint8_t, 3> pixels{};
  double clock = 0.0;

  friend bool operator==(const Frame&, const Frame&) = default;
};

/// The columns of one step of the made-up world.
struct StepData {
  std::int32_t action = 0;
  float reward = 0.0F;
  float discount = 1.0F;

  friend bool operator==(const StepData&, const StepData&) = default;
};

/// The schema that the model's tests use, and how its values go in and come out.
class World {
 public:
  explicit World(bool with_discount = false);

  [[nodiscard]] const Schema& schema() const { return schema_; }

  void write_first(Writer& writer, const Frame& frame) const;
  void write_step(Writer& writer, const StepData& step, const Frame& next) const;

  [[nodiscard]] Frame random_frame(Rng& rng) const;
  [[nodiscard]] StepData random_step(Rng& rng) const;

  /// The stacked frames of item i of a batch, oldest first.
  [[nodiscard]] std::vector<Frame> now(const Batch& batch, std::size_t item) const;
  [[nodiscard]] std::vector<Frame> next(const Batch& batch, std::size_t item) const;
  [[nodiscard]] StepData step(const Batch& batch, std::size_t item) const;
  [[nodiscard]] float returns(const Batch& batch, std::size_t item) const;

 private:
  Schema schema_;
  Observation<std::uint8_t> pixels_;
  ScalarObservation<double> clock_;
  ScalarColumn<std::int32_t> action_;
  Reward reward_;
  std::optional<Discount> discount_;
};

}  // namespace reprise::test
