#include "sampler/weighted_draw.hpp"

#include "base/extremes.hpp"
#include "select/allot.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace reprise::sampler {

WeightedDraw::WeightedDraw(buffer::ShardSet& shards, std::size_t selector)
    : DrawPlan(shards, selector),
      shares_(shards.size()),
      counts_(shards.size()),
      begins_(shards.size()),
      drawn_(shards.size()) {}

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
  draw_round(drawing, spread_of(drawing.draws), random);
  // The share of each shard that was found empty is 0 now, so the others make its draws.
  draw_round(drawing, select::Spread::Independent, random);
  if (drawing.done() < drawing.slots.size()) {
    // Another shard has lost its items. If it gave draws in the first round, the probabilities of
    // these draws would be wrong.
    drawing.give_back(shards_, before);
    return Outcome::Retry;
  }
  report(drawing, before);
  return Outcome::Drawn;
}

/// Reads each shard's total from its hints. Returns whether their sum is above 0.
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

/// Allots the draws that are still to be made to the shards by their shares, and makes them. Locks
/// each shard that gets some of them once. Draws that fall on an empty shard are not made, and the
/// share of that shard becomes 0.
void WeightedDraw::draw_round(Drawing& drawing, select::Spread spread, base::Random& random) {
  const std::size_t left = drawing.slots.size() - drawing.done();
  const double sum = std::accumulate(shares_.begin(), shares_.end(), 0.0);
  if (left == 0 || !(sum > 0.0)) {
    return;
  }
  for (double& share : shares_) {
    share /= sum;
  }
  select::allot(shares_, spread, random, positions_, std::span(fractions_).first(left), counts_);
  std::exclusive_scan(counts_.begin(), counts_.end(), begins_.begin(), std::size_t{0});
  // Each shard draws into slots of its own, so the order of a batch does not depend on which locks
  // were free (I8).
  const std::size_t first = drawing.done();
  shards_.visit([this](std::size_t s) { return counts_[s] != 0; },
                [&](std::size_t s, shard::LockedShard& shard) {
                  const auto fractions = std::span(fractions_).subspan(begins_[s], counts_[s]);
                  drawn_[s] = shard.draw(selector_, fractions,
                                         drawing.slots.sub(first + begins_[s], counts_[s]));
                });
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    if (counts_[s] != 0 && drawn_[s].items == 0) {
      shares_[s] = 0.0;
    } else if (counts_[s] != 0) {
      drawing.slots.move(first + begins_[s], drawing.done(), drawn_[s].items);
      drawing.add(s, drawn_[s]);
    }
  }
}

/// Writes P = share of the shard * (weight / locked total). Draws that fell on an empty shard were
/// made again in the other shards, as if the empty one had never had a share. So the last shares
/// hold for all draws.
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
