#include "sampler/fresh_draw.hpp"

#include "base/divider.hpp"

#include <algorithm>
#include <cmath>

namespace reprise::sampler {

FreshDraw::FreshDraw(DrawPlan& rest, buffer::ShardSet& shards, std::size_t selector, float share)
    : DrawPlan(shards, selector),
      rest_(rest),
      share_(static_cast<double>(share)),
      counts_(shards.size()) {
  if (share > 0.0F) {
    shards_.track_fresh();
  }
}

DrawPlan::Outcome FreshDraw::draw(Drawing& drawing, base::Random& random) {
  if (drawing.runs.empty()) {
    draw_fresh(drawing);
    drawing.fresh = drawing.done();
  }
  if (const Outcome outcome = rest_.draw(drawing, random); outcome != Outcome::Drawn) {
    return outcome;
  }
  facts_ = rest_.facts();
  // The queue gives each item once, so all have the same probability.
  const double alike = 1.0 / facts_.items;
  facts_.lowest_probability = std::min(facts_.lowest_probability, alike);
  if (drawing.fresh != 0) {
    std::ranges::fill(drawing.slots.probabilities.first(drawing.fresh), alike);
    facts_.lowest_drawn = std::min(facts_.lowest_drawn, alike);
  }
  return Outcome::Drawn;
}

/// Draws the fresh share of the batch, or all fresh items if there are fewer. Each shard gives a
/// number in proportion to its fresh items, rounded up, so that items of all shards wait as long.
void FreshDraw::draw_fresh(Drawing& drawing) {
  const double share = share_ * static_cast<double>(drawing.slots.size());
  const auto wanted = std::max<std::size_t>(static_cast<std::size_t>(std::llround(share)), 1);
  std::size_t left = 0;  // Fresh items in shards that were not asked.
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    counts_[s] = shards_[s].hints().fresh();
    left += counts_[s];
  }
  for (std::size_t i = 0; i < counts_.size() && drawing.done() < wanted; ++i) {
    const std::size_t s = (first_ + i) % counts_.size();
    if (counts_[s] != 0) {
      const std::size_t count =
          std::min(counts_[s], base::divide_up((wanted - drawing.done()) * counts_[s], left));
      left -= counts_[s];
      const buffer::ShardSet::Lock shard(shards_, s);
      drawing.add(s, shard->draw_fresh(selector_, drawing.slots.sub(drawing.done(), count)));
    }
  }
  first_ = (first_ + 1) % counts_.size();
}

}  // namespace reprise::sampler
