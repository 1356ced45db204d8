#include "api/snapshot_draw.hpp"

#include "api/all_shards.hpp"
#include "select/allot.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace reprise::detail {

SnapshotDraw::SnapshotDraw(BufferCore& core, std::size_t selector)
    : core_(core),
      selector_(selector),
      ordered_(core.ordered(selector)),
      limited_(core.options().max_times_sampled != 0),
      totals_(core.shard_count()),
      shares_(core.shard_count()),
      counts_(core.shard_count()) {}

std::size_t SnapshotDraw::distinct(std::size_t n, Draws draws) const noexcept {
  if (ordered_ || draws == Draws::WithoutReplacement) {
    return n;
  }
  const std::size_t times = core_.options().max_times_sampled;
  return limited_ ? n / times + (n % times != 0) : 0;
}

void SnapshotDraw::reserve(std::size_t n) {
  chosen_.reserve(n);
  round_.reserve(n + 1);
  positions_.resize(std::max(positions_.size(), n + 1));
  fractions_.resize(positions_.size());
  leaves_.resize(positions_.size());
  weights_.resize(positions_.size());
}

bool SnapshotDraw::draw(const Batch& batch, Draws draws, base::Random& random) {
  const std::size_t n = batch.keys.size();
  chosen_.clear();
  if (ordered_) {
    // Shards are not ingested at one moment: a writer may have gone on from one that was to one
    // that will be. What is decided from here on has to wait for the next draw.
    horizon_ = core_.orders_taken();
    core_.drain();
  }
  const AllShards all(core_);
  const bool without = draws == Draws::WithoutReplacement;
  const bool enough = ordered_ ? choose_first(n) : choose_by_weight(n, draws, random);
  if (!enough) {
    undo();
    return false;
  }
  settle(ordered_ || without);
  hand_out(batch);
  return true;
}

/// A shard whose lock is held by draw().
shard::Shard& SnapshotDraw::locked(std::size_t shard) const noexcept {
  return core_.shard(shard);
}

/// The first n items of all shards.
bool SnapshotDraw::choose_first(std::size_t n) noexcept {
  const auto best = [&](std::size_t s) {
    shard::Shard& shard = locked(s);
    shard.mutex.is_held();
    return shard.order_of(selector_)->best();
  };
  items_ = 1;  // Nothing is left to chance: every P is 1, and so is every weight.
  lowest_probability_ = 1.0;
  scale_ = 1.0;
  threshold_ = 0.0;
  while (chosen_.size() < n) {
    std::size_t first = 0;
    for (std::size_t s = 1; s < totals_.size(); ++s) {
      first = best(s) > best(first) ? s : first;
    }
    if (best(first) == 0) {
      return false;
    }
    shard::Shard& shard = locked(first);
    shard.mutex.is_held();
    if (!shard.order_of(selector_)->best_is_before(horizon_)) {
      return false;
    }
    const std::uint32_t leaf = shard.order_of(selector_)->take_best();
    accept({static_cast<std::uint32_t>(first), leaf, 1.0F, false}, false);
  }
  return true;
}

/// Reads every shard's weight and gives the sum.
double SnapshotDraw::read_totals() noexcept {
  for (std::size_t s = 0; s < totals_.size(); ++s) {
    shard::Shard& shard = locked(s);
    shard.mutex.is_held();
    totals_[s] = shard.half(selector_).summary().total;
  }
  return std::accumulate(totals_.begin(), totals_.end(), 0.0);
}

/// Rounds of draws from what is left. A draw of an item that is gone since the round began counts
/// as if it had not been made: the rest are draws among those that are left, as if each had been
/// made alone.
///
/// Without replacement draws arrive at random times, at the rate of the total that they are drawn
/// from. So each item first arrives after an exponential time of rate weight(i), and the time of
/// the item after the last one taken is the threshold. An item that has arrived is hidden; then the
/// rest arrive at the rate of what is left.
bool SnapshotDraw::choose_by_weight(std::size_t n, Draws draws, base::Random& random) noexcept {
  const bool without = draws == Draws::WithoutReplacement;
  double total = read_totals();
  float lightest = std::numeric_limits<float>::infinity();
  items_ = 0;
  for (std::size_t s = 0; s < totals_.size(); ++s) {
    lightest = std::min(lightest, core_.shard(s).hint(selector_).min_positive);
    items_ += core_.shard(s).windows();
  }
  scale_ = total > 0.0 ? 1.0 / total : 0.0;
  threshold_ = 0.0;
  const std::size_t wanted = without ? n + 1 : n;
  bool first_round = true;
  while (total > 0.0) {
    draw_round(std::span(fractions_).first(wanted - chosen_.size()),
               first_round && draws == Draws::Stratified, total, random);
    for (const Choice& choice : round_) {
      if (without) {
        threshold_ -= std::log1p(-random.uniform()) / total;
      }
      shard::Shard& shard = locked(choice.shard);
      shard.mutex.is_held();
      if (!shard.half(selector_).all_positive(std::span(&choice.leaf, 1))) {
        continue;
      }
      if (chosen_.size() == n) {
        lowest_probability_ = probability(static_cast<double>(lightest), n);
        return true;  // This one sets the threshold.
      }
      accept(choice, without);
    }
    if (!without && chosen_.size() == n) {
      lowest_probability_ = probability(static_cast<double>(lightest), n);
      return true;
    }
    first_round = false;
    total = read_totals();
  }
  threshold_ = std::numeric_limits<double>::infinity();  // All there are.
  lowest_probability_ = probability(static_cast<double>(lightest), n);
  return chosen_.size() == n;
}

/// Draws one leaf per fraction into round_, in random order.
void SnapshotDraw::draw_round(std::span<double> fractions, bool stratified, double total,
                              base::Random& random) noexcept {
  std::transform(totals_.begin(), totals_.end(), shares_.begin(),
                 [total](double of_shard) { return of_shard / total; });
  select::allot(shares_, stratified, random, positions_, fractions, counts_);
  round_.clear();
  std::size_t next = 0;
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    const std::size_t count = counts_[s];
    if (count == 0) {
      continue;
    }
    const std::span<double> targets = fractions.subspan(next, count);
    shard::Shard& shard = locked(s);
    shard.mutex.is_held();
    const double in_units = totals_[s] / shard.half(selector_).unit();
    for (double& target : targets) {
      target *= in_units;
    }
    shard.half(selector_).draw(targets, std::span(leaves_).first(count),
                               std::span(weights_).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      round_.push_back({static_cast<std::uint32_t>(s), leaves_[i], weights_[i], false});
    }
    next += count;
  }
  // Fisher and Yates. The remainder's bias is below 2^-40 for any batch that fits memory.
  for (std::size_t i = round_.size(); i > 1; --i) {
    std::swap(round_[i - 1], round_[random.next() % i]);
  }
}

/// Takes an item; with `hide`, or if it may not be drawn again, it is hidden.
void SnapshotDraw::accept(const Choice& choice, bool hide) noexcept {
  shard::Shard& shard = locked(choice.shard);
  shard.mutex.is_held();
  shard.draw_counts().add(choice.leaf);
  Choice& taken = chosen_.emplace_back(choice);
  taken.spent = shard.draw_counts().spent(choice.leaf);
  if (hide || taken.spent) {
    shard.half(selector_).hide(std::span(&choice.leaf, 1));
  }
}

void SnapshotDraw::undo() noexcept {
  for (const Choice& choice : chosen_) {
    shard::Shard& shard = locked(choice.shard);
    shard.mutex.is_held();
    shard.draw_counts().take_back(choice.leaf);
    shard.half(selector_).show(std::span(&choice.leaf, 1), std::span(&choice.weight, 1));
  }
  chosen_.clear();
}

/// Spent items are gone for good; others that were hidden come back. Items drawn by weight are
/// sorted by where they are.
void SnapshotDraw::settle(bool hidden) noexcept {
  if (!ordered_) {
    std::sort(chosen_.begin(), chosen_.end(), [](const Choice& a, const Choice& b) {
      return std::tie(a.shard, a.leaf) < std::tie(b.shard, b.leaf);
    });
  }
  for (const Choice& choice : chosen_) {
    shard::Shard& shard = locked(choice.shard);
    shard.mutex.is_held();
    if (choice.spent) {
      shard.spend(std::span(&choice.leaf, 1));
    } else if (hidden) {
      shard.half(selector_).show(std::span(&choice.leaf, 1), std::span(&choice.weight, 1));
    }
  }
}

double SnapshotDraw::probability(double weight, std::size_t n) const noexcept {
  return threshold_ == 0.0 ? weight * scale_
                           : -std::expm1(-weight * threshold_) / static_cast<double>(n);
}

/// Keys, places, probabilities and pins.
void SnapshotDraw::hand_out(const Batch& batch) noexcept {
  std::fill(batch.pins.begin(), batch.pins.end(), 0);
  for (const Choice& choice : chosen_) {
    ++batch.pins[choice.shard];
  }
  std::exclusive_scan(batch.pins.begin(), batch.pins.end(), counts_.begin(), std::size_t{0});
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    const auto& [s, leaf, weight, spent] = chosen_[i];
    shard::Shard& shard = locked(s);
    shard.mutex.is_held();
    batch.keys[i] = shard.key(leaf);
    batch.places[i] = shard.place(leaf);
    const double whole = static_cast<double>(weight) * shard.half(selector_).unit();
    batch.probabilities[i] = ordered_ ? 1.0 : probability(whole, chosen_.size());
    std::uint32_t& pinned = batch.pinned[counts_[s]++];
    pinned = batch.places[i].chunk;
    shard.pin(std::span(&pinned, 1));
  }
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    shard::Shard& shard = locked(s);
    shard.mutex.is_held();
    if (shard.tells_remover()) {
      // counts_ has moved on to the end of each shard's pins.
      const auto chunks = batch.pinned.subspan(counts_[s] - batch.pins[s], batch.pins[s]);
      std::copy(chunks.begin(), chunks.end(), leaves_.begin());
      shard.tell_remover(std::span(leaves_).first(chunks.size()));
    }
  }
}

}  // namespace reprise::detail
