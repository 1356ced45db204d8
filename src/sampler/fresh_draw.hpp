#pragma once

#include "sampler/draw_plan.hpp"

#include <cstddef>
#include <vector>

namespace reprise::sampler {

/// Draws items that nobody has drawn before, from the shards' queues of fresh items
/// (`SamplerOptions::fresh`), into the first slots; another plan draws the rest of the batch.
class FreshDraw final : public DrawPlan {
 public:
  /// With a share above 0 the buffer tracks fresh items from now on.
  FreshDraw(DrawPlan& rest, buffer::ShardSet& shards, std::size_t selector, float share);

  void reserve(Drawing& drawing) override { rest_.reserve(drawing); }
  Outcome draw(Drawing& drawing, base::Random& random) override;

 private:
  void draw_fresh(Drawing& drawing);

  DrawPlan& rest_;
  const double share_;
  std::size_t first_ = 0;  ///< The shard that is asked first, which changes with each draw.
  std::vector<std::size_t> counts_;  ///< Fresh items of each shard.
};

}  // namespace reprise::sampler
