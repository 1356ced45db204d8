#include "world.hpp"

#include <algorithm>

namespace reprise::test {
namespace {

std::vector<Frame> frames_of(std::span<const std::uint8_t> pixels, std::span<const double> clocks,
                             std::size_t item, std::size_t items) {
  const std::size_t stack = clocks.size() / items;
  std::vector<Frame> frames(stack);
  for (std::size_t k = 0; k < stack; ++k) {
    const std::size_t place = item * stack + k;
    std::copy_n(pixels.begin() + static_cast<std::ptrdiff_t>(place * 3), 3,
                frames[k].pixels.begin());
    frames[k].clock = clocks[place];
  }
  return frames;
}

}  // namespace

World::World(bool with_discount)
    : pixels_(schema_.observation<std::uint8_t>("pixels", {3})),
      clock_(schema_.observation<double>("clock")),
      action_(schema_.column<std::int32_t>("action")),
      reward_(schema_.reward("reward")) {
  if (with_discount) {
    discount_ = schema_.discount("discount");
  }
}

void World::write_first(Writer& writer, const Frame& frame) const {
  std::ranges::copy(frame.pixels, writer.now(pixels_).begin());
  writer.now(clock_) = frame.clock;
}

void World::write_step(Writer& writer, const StepData& step, const Frame& next) const {
  writer.now(action_) = step.action;
  writer.now(reward_) = step.reward;
  if (discount_) {
    writer.now(*discount_) = step.discount;
  }
  std::ranges::copy(next.pixels, writer.next(pixels_).begin());
  writer.next(clock_) = next.clock;
}

Frame World::random_frame(Rng& rng) const {
  Frame frame;
  for (std::uint8_t& pixel : frame.pixels) {
    pixel = static_cast<std::uint8_t>(rng.next());
  }
  frame.clock = rng.unit();
  return frame;
}

StepData World::random_step(Rng& rng) const {
  StepData step;
  step.action = static_cast<std::int32_t>(rng.below(1000)) - 500;
  step.reward = static_cast<float>(2.0 * rng.unit() - 1.0);
  if (discount_) {
    constexpr std::array<float, 4> kDiscounts = {0.0F, 0.5F, 0.97F, 1.0F};
    step.discount = kDiscounts[rng.below(kDiscounts.size())];
  }
  return step;
}

std::vector<Frame> World::now(const Batch& batch, std::size_t item) const {
  return frames_of(batch.now(pixels_), batch.now(clock_), item, batch.size());
}

std::vector<Frame> World::next(const Batch& batch, std::size_t item) const {
  return frames_of(batch.next(pixels_), batch.next(clock_), item, batch.size());
}

StepData World::step(const Batch& batch, std::size_t item) const {
  StepData step;
  step.action = batch.now(action_)[item];
  step.reward = batch.now(reward_)[item];
  if (discount_) {
    step.discount = batch.now(*discount_)[item];
  }
  return step;
}

float World::returns(const Batch& batch, std::size_t item) const {
  return batch.returns(reward_)[item];
}

}  // namespace reprise::test
