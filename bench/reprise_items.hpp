#pragma once

#include <reprise/reprise.hpp>

#include "measure.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <stdexcept>

namespace bench {

/// A full buffer of items with random priorities, a writer and a sampler. Its rows are as small as
/// possible, so that a benchmark measures the work on items alone.
class RepriseItems {
 public:
  static reprise::Proportional proportional() { return {.alpha = kAlpha, .epsilon = kEpsilon}; }

  explicit RepriseItems(std::size_t size)
      : RepriseItems({.capacity_steps = size, .selectors = {proportional()}}) {}

  /// `how` are the options of each draw. `fresh` is the share of fresh items in each batch.
  explicit RepriseItems(const reprise::Options& options, const reprise::SampleOptions& how = {},
                        float fresh = 0.0F)
      : how_(how),
        replay_(schema_, options),
        sampler_(replay_.sampler({.seed = 1, .fresh = fresh})) {
    how_.beta = kBeta;
    how_.gather = false;
    writer_.begin_episode();
    writer_.now(state_) = 0;
    Random random(1);
    for (std::size_t i = 0; i < options.capacity_steps; ++i) {
      const auto priority = static_cast<float>(random.uniform());
      append({&priority, 1});
    }
    if (replay_.size() != options.capacity_steps) {  // size() ingests what was committed.
      throw std::logic_error("the buffer did not fill");
    }
  }

  void append(std::span<const float> priority = {}) {
    writer_.next(state_) = 0;
    writer_.commit(reprise::End::Continue, priority);
  }
  void draw(std::size_t n = kBatch) {
    batch_ = &*sampler_.sample(n, how_);
    benchmark::DoNotOptimize(batch_->weights().data());
  }
  /// Draws a batch with its rows. Returns false if the rate limiter does not allow the draw at
  /// once.
  bool try_draw(std::size_t n) {
    reprise::SampleOptions how = how_;
    how.gather = true;
    how.timeout = std::chrono::nanoseconds(0);
    return static_cast<bool>(sampler_.sample(n, how));
  }
  void update() {
    benchmark::DoNotOptimize(replay_.update_priorities(batch_->keys(), priorities_.next()));
  }
  [[nodiscard]] reprise::ReplayBuffer& replay() { return replay_; }

 private:
  reprise::SampleOptions how_;
  reprise::Schema schema_;
  reprise::ScalarObservation<std::uint8_t> state_ = schema_.observation<std::uint8_t>("state");
  reprise::ReplayBuffer replay_;
  reprise::Writer writer_ = replay_.writer();
  reprise::Sampler sampler_;
  const reprise::Batch* batch_ = nullptr;
  Priorities priorities_;
};

}  // namespace bench
