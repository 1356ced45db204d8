#include "sampler/weighted_draw.hpp"

#include "base/extremes.hpp"
#include "select/allot.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace reprise::sampler {

WeightedDraw::WeightedDraw(buffer::ShardSet& shards, std::size_t selector)
    : DrawPlan(shards, selector), shares_(shards.size()), counts_(shards.size()) {}

void WeightedDraw::reserve(Drawing& drawing) {
  const std::size_t n = drawing.slots.size();
  if (n > positions_.size()) {
    fractions_.resize(n);
    positions_.resize(n);
  }
}

DrawPlan::Outcome WeightedDraw::draw(Drawing& drawing, base::Random& random) {
  if (!read_hints()) {
    return without_weight();
  }
  const std::size_t before = drawing.runs.size();
  const std::size_t n = drawing.slots.size();
  bool first_round = true;
  for (; drawing.done() < n; first_round = false) {
    // Shards that were empty in the first round have a share of 0 now, so the others are scaled up.
    const double sum = std::accumulate(shares_.begin(), shares_.end(), 0.0);
    bool failed = !(sum > 0.0);
    if (!failed) {
      for (double& share : shares_) {
        share /= sum;
      }
      const bool stratified = first_round && drawing.draws == Draws::Stratified;
      select::allot(shares_, stratified, random, positions_,
                    std::span(fractions_).first(n - drawing.done()), counts_);
      draw_round(drawing);
      // A shard that gave draws in the first round is empty now, so their probabilities would be
      // wrong.
      failed = !first_round && drawing.done() < n;
    }
    if (failed) {
      drawing.give_back(shards_, before);
      return Outcome::Retry;
    }
  }
  report(drawing, before);
  return Outcome::Drawn;
}

/// Reads each shard's total from its hints. Returns whether any is above 0.
bool WeightedDraw::read_hints() noexcept {
  double total = 0.0;
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < shares_.size(); ++s) {
    const SelectorSummary hint = shards_[s].hints().summary(selector_);
    shares_[s] = hint.total;
    total += hint.total;
    lowest = std::min(lowest, static_cast<double>(hint.min_positive));
  }
  if (!(total > 0.0)) {
    return false;
  }
  facts_.items = static_cast<double>(std::max<std::size_t>(shards_.items(), 1));
  facts_.lowest_probability = lowest / total;
  return true;
}

/// Makes the draws of `counts_`. Locks each shard that has any once.
void WeightedDraw::draw_round(Drawing& drawing) {
  std::size_t next = 0;
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    const std::size_t count = counts_[s];
    if (count == 0) {
      continue;
    }
    shard::Drawn drawn;
    {
      const buffer::ShardSet::Lock shard(shards_, s);
      drawn = shard->draw(selector_, std::span(fractions_).subspan(next, count),
                          drawing.slots.sub(drawing.done(), count));
    }
    next += count;
    shares_[s] = drawn.items == 0 ? 0.0 : shares_[s];
    drawing.add(s, drawn);
  }
}

/// Writes P = share of the shard * (weight / locked total). Draws that fell on an empty shard are
/// made again among the others, as if that shard had never had a share, so the last shares hold for
/// all draws.
void WeightedDraw::report(const Drawing& drawing, std::size_t before) noexcept {
  facts_.lowest_drawn = std::numeric_limits<double>::infinity();
  for (const Run& run : std::span(drawing.runs).subspan(before)) {
    const double scale = shares_[run.shard] / run.total;
    const std::span<const float> weights = drawing.slots.weights.subspan(run.begin, run.count);
    for (std::size_t i = 0; i < run.count; ++i) {
      drawing.slots.probabilities[run.begin + i] = static_cast<double>(weights[i]) * scale;
    }
    const float least = base::extreme(weights, weights[0], std::less<>());
    facts_.lowest_drawn = std::min(facts_.lowest_drawn, static_cast<double>(least) * scale);
  }
}

}  // namespace reprise::sampler
