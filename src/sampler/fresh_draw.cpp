#include "sampler/fresh_draw.hpp"

#include "base/divider.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <cmath>

namespace reprise::sampler {

FreshDraw::FreshDraw(buffer::BufferCore& core, std::size_t selector, float share)
    : core_(core),
      selector_(selector),
      share_(static_cast<double>(share)),
      counts_(core.shards().size()) {
  base::require(share >= 0.0F && share <= 1.0F, "fresh is ", share, "; allowed: 0 to 1");
  if (on()) {
    base::require(
        !core.selectors().at(selector).in_order() && core.options().max_times_sampled == 0,
        "fresh is ", share,
        ", of a selector that draws in an order or with max_times_sampled; allowed: of "
        "the others, as a queue in front of them would change the order or the counts");
    core.shards().track_fresh();
  }
}

/// Each shard gives in proportion to what it has, rounded up, so that the queues grow old alike.
std::size_t FreshDraw::draw(const shard::Slots& batch, std::vector<Run>& runs) noexcept {
  const double share = share_ * static_cast<double>(batch.size());
  const auto wanted = std::max<std::size_t>(static_cast<std::size_t>(std::llround(share)), 1);
  std::size_t left = 0;  // Fresh items in shards that were not asked.
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    counts_[s] = core_.shards()[s].hints().fresh();
    left += counts_[s];
  }
  std::size_t done = 0;
  for (std::size_t i = 0; i < counts_.size() && done < wanted; ++i) {
    const std::size_t s = (first_ + i) % counts_.size();
    if (counts_[s] == 0) {
      continue;
    }
    const std::size_t count =
        std::min(counts_[s], base::divide_up((wanted - done) * counts_[s], left));
    left -= counts_[s];
    const buffer::ShardSet::One shard(core_.shards(), s);
    const shard::Drawn drawn = shard->draw_fresh(selector_, batch.sub(done, count));
    if (drawn.items != 0) {
      runs.push_back({s, done, drawn.items, drawn.pins, 0.0});
    }
    done += drawn.items;
  }
  first_ = (first_ + 1) % counts_.size();
  return done;
}

}  // namespace reprise::sampler
