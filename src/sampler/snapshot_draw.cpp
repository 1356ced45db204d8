#include "sampler/snapshot_draw.hpp"

#include "base/check.hpp"
#include "base/divider.hpp"
#include "select/one_interval.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace reprise::sampler {

SnapshotDraw::SnapshotDraw(buffer::ShardSet& shards, const buffer::ItemNumbers& numbers,
                           std::size_t selector, bool ordered)
    : DrawPlan(shards, selector),
      numbers_(numbers),
      ordered_(ordered),
      first_keys_(shards.size()),
      totals_(shards.size()),
      shares_(shards.size()),
      counts_(shards.size()) {}

Needs SnapshotDraw::needs(std::size_t n, Draws draws) const noexcept {
  if (ordered_ || draws == Draws::WithoutReplacement) {
    return {n, 0};
  }
  // An item may be drawn more than once, up to its limit, so the draws left have to be counted.
  return {base::divide_up(n, shards_.draws_per_item()), n};
}

void SnapshotDraw::reserve(Drawing& drawing) {
  const std::size_t n = drawing.slots.size();
  chosen_.reserve(n + 1);  // The same room as round_ has, because the two are swapped.
  round_.reserve(n + 1);
  arrivals_.reserve(n + 1);
  positions_.resize(std::max(positions_.size(), n + 1));
  fractions_.resize(positions_.size());
  leaves_.resize(positions_.size());
  weights_.resize(positions_.size());
  if (ordered_) {
    keys_.resize(positions_.size());
    places_.resize(positions_.size());
  }
}

DrawPlan::Outcome SnapshotDraw::draw(Drawing& drawing, base::Random& random) {
  if (draw_once(drawing, random)) {
    return Outcome::Drawn;
  }
  // A try in order does not take items that were decided after the try began. If the buffer has
  // enough items now, a second try may take those.
  if (shards_.items() >= drawing.slots.size() && draw_once(drawing, random)) {
    return Outcome::Drawn;
  }
  return lacks_items_ ? Outcome::TooFew : Outcome::NoWeight;
}

bool SnapshotDraw::draw_once(Drawing& drawing, base::Random& random) {
  const std::size_t n = drawing.slots.size();
  chosen_.clear();
  any_hidden_ = false;
  lacks_items_ = false;
  if (ordered_) {
    // Shards are ingested one after the other. Meanwhile a writer may move from a shard that was
    // ingested to one that was not, so of its items only the later ones would be seen. Therefore
    // items with a number from here on are left to the next draw.
    horizon_ = numbers_.taken();
    shards_.drain();
  }
  const buffer::ShardSet::LockAll all(shards_);
  const bool enough =
      ordered_ ? choose_first(all, n) : choose_by_weight(all, n, drawing.draws, random);
  drawing.found = chosen_.size();
  if (!enough) {
    // The hints are exact, because they change only when a lock is released, and this thread holds
    // all locks.
    const Needs available{shards_.items(), shards_.draws_left()};
    lacks_items_ = lacks_items_ || !available.covers(needs(n, drawing.draws));
    undo(all);
    return false;
  }
  settle(all);
  fill_batch(all, drawing);
  return true;
}

/// Chooses the first n items of all shards. Returns false if fewer are below the horizon.
bool SnapshotDraw::choose_first(const All& all, std::size_t n) noexcept {
  const auto read = [&](std::size_t s) {
    shard::LockedShard& shard = all[s];
    first_keys_[s] = shard.selector(selector_).first_key();
  };
  for (std::size_t s = 0; s < first_keys_.size(); ++s) {
    read(s);
  }
  any_hidden_ = true;
  facts_ = {1.0, 1.0, 1.0};  // Nothing is random: every P and every importance weight is 1.
  scale_ = 1.0;
  threshold_ = 0.0;
  while (chosen_.size() < n) {
    std::size_t first = 0;
    for (std::size_t s = 1; s < first_keys_.size(); ++s) {
      first = first_keys_[s] > first_keys_[first] ? s : first;
    }
    if (first_keys_[first] == 0) {
      return false;
    }
    shard::LockedShard& shard = all[first];
    if (!shard.selector(selector_).first_is_before(horizon_)) {
      lacks_items_ = true;
      return false;
    }
    Choice& choice = chosen_.emplace_back();
    choice.shard = static_cast<std::uint32_t>(first);
    choice.leaf = shard.selector(selector_).take_first();
    accept_once(all, choice);
    read(first);
  }
  return true;
}

/// Reads every shard's total weight and returns the sum.
double SnapshotDraw::read_totals(const All& all) noexcept {
  for (std::size_t s = 0; s < totals_.size(); ++s) {
    shard::LockedShard& shard = all[s];
    totals_[s] = shard.selector(selector_).summary().total;
  }
  return std::accumulate(totals_.begin(), totals_.end(), 0.0);
}

/// Makes rounds of draws from the items that may still be drawn. If the last draw that an item
/// allows was made earlier in the round, another draw of it is void. The draws that count are then
/// distributed as if each had been made alone, from the items that could be drawn at that time.
///
/// Without replacement, draws arrive at random times, and their rate is the total weight of the
/// items they are drawn from. So the first arrival of item i has an exponential distribution of
/// rate weight(i). The threshold is the arrival time of the first item that is not taken any more.
/// Items that have arrived are hidden before the next round, whose rate is the weight left.
bool SnapshotDraw::choose_by_weight(const All& all, std::size_t n, Draws draws,
                                    base::Random& random) noexcept {
  const bool with_replacement = draws != Draws::WithoutReplacement;
  double total = read_totals(all);
  float lightest = std::numeric_limits<float>::infinity();
  std::size_t items = 0;
  for (std::size_t s = 0; s < totals_.size(); ++s) {
    lightest = std::min(lightest, shards_[s].hints().summary(selector_).min_positive);
    items += shards_[s].hints().items();
  }
  facts_.items = static_cast<double>(items);
  scale_ = total > 0.0 ? 1.0 / total : 0.0;
  threshold_ = 0.0;
  const std::size_t wanted = with_replacement ? n : n + 1;
  // Only the first round is stratified.
  select::Spread spread = spread_of(draws);
  while (total > 0.0) {
    draw_round(all, std::span(fractions_).first(wanted - chosen_.size()), spread, total, random);
    const std::size_t before = chosen_.size();
    if (with_replacement ? take_draws(all, n) : take_arrivals(all, n, total, random)) {
      facts_.lowest_probability = probability(static_cast<double>(lightest), n);
      return true;
    }
    hide(all, std::span(chosen_).subspan(before));
    spread = select::Spread::Independent;
    total = read_totals(all);
  }
  threshold_ = std::numeric_limits<double>::infinity();  // All items were taken.
  facts_.lowest_probability = probability(static_cast<double>(lightest), n);
  return chosen_.size() == n;
}

/// Draws one leaf per fraction into round_.
void SnapshotDraw::draw_round(const All& all, std::span<double> fractions, select::Spread spread,
                              double total, base::Random& random) noexcept {
  std::transform(totals_.begin(), totals_.end(), shares_.begin(),
                 [total](double of_shard) { return of_shard / total; });
  select::allot(shares_, spread, random, positions_, fractions, counts_);
  round_.clear();
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    const std::size_t count = counts_[s];
    if (count == 0) {
      continue;
    }
    const std::size_t begin = round_.size();
    const std::span<double> targets = fractions.subspan(begin, count);
    shard::LockedShard& shard = all[s];
    for (double& target : targets) {
      target *= totals_[s];
    }
    shard.selector(selector_).draw(targets, std::span(leaves_).first(count),
                                   std::span(weights_).first(count));
    REPRISE_ASSERT(select::equal_leaves_are_adjacent(std::span(leaves_).first(count)));
    // The targets rise, so draws of one leaf follow each other.
    for (std::size_t i = 0; i < count; ++i) {
      const bool again = i != 0 && leaves_[i] == leaves_[i - 1];
      Choice& choice = round_.emplace_back();
      choice.shard = static_cast<std::uint32_t>(s);
      choice.leaf = leaves_[i];
      shard.limit().prefetch(choice.leaf);
      choice.weight = weights_[i];
      choice.first = again ? round_[begin + i - 1].first : static_cast<std::uint32_t>(begin + i);
    }
  }
}

/// Takes the draws of a round with replacement that are not void. Returns whether n are chosen.
bool SnapshotDraw::take_draws(const All& all, std::size_t n) noexcept {
  for (Choice& choice : round_) {
    shard::LockedShard& shard = all[choice.shard];
    if (!shard.limit().exhausted(choice.leaf)) {
      accept(all, choice);
      chosen_.push_back(choice);
    }
  }
  return chosen_.size() == n;
}

/// Lets the draws of a round without replacement arrive in random order and at random times, and
/// takes the first arrival of each item. Returns whether no further round is needed: n draws are
/// chosen, and the threshold is known.
bool SnapshotDraw::take_arrivals(const All& all, std::size_t n, double total,
                                 base::Random& random) noexcept {
  arrivals_.resize(round_.size());
  std::iota(arrivals_.begin(), arrivals_.end(), 0U);
  std::size_t taken = chosen_.size();
  bool enough = false;
  // The sum of exponential times is the logarithm of a product.
  double product = 1.0;
  const auto add_times = [&] {
    threshold_ -= std::log(product) / total;
    product = 1.0;
  };
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    product *= 1.0 - random.uniform();
    if (product < 0x1p-960) {
      add_times();  // The next factor is at least 2^-53, so the product never underflows.
    }
    // A Fisher-Yates shuffle. The bias of the remainder is below 2^-40 for every batch that fits in
    // memory.
    std::swap(arrivals_[i], arrivals_[i + random.next() % (arrivals_.size() - i)]);
    Choice& choice = round_[arrivals_[i]];
    bool& seen = round_[choice.first].seen;
    if (seen) {
      continue;
    }
    if (taken == n) {
      enough = true;  // This arrival sets the threshold.
      break;
    }
    seen = true;
    choice.taken = true;
    accept_once(all, choice);
    ++taken;
  }
  add_times();
  std::copy_if(round_.begin(), round_.end(), std::back_inserter(chosen_),
               [](const Choice& choice) { return choice.taken; });
  return enough;
}

/// Counts a draw of an item, which is hidden from further rounds if that exhausts it.
void SnapshotDraw::accept(const All& all, Choice& choice) noexcept {
  shard::LockedShard& shard = all[choice.shard];
  choice.exhausted = choice.hidden = shard.limit().add(choice.leaf);
}

/// Counts the only draw of an item in this batch, from whose further rounds it is hidden.
void SnapshotDraw::accept_once(const All& all, Choice& choice) noexcept {
  accept(all, choice);
  choice.hidden = true;
}

double SnapshotDraw::probability(double weight, std::size_t n) const noexcept {
  return threshold_ == 0.0 ? weight * scale_
                           : -std::expm1(-weight * threshold_) / static_cast<double>(n);
}

/// Calls call(shard, leaves, weights) once for each shard that has choices for which `which` is
/// true, with the leaves and weights of these choices.
template <class Which, class Call>
void SnapshotDraw::by_shard(std::span<const Choice> choices, Which which, Call call) noexcept {
  std::fill(counts_.begin(), counts_.end(), 0);
  for (const Choice& choice : choices) {
    counts_[choice.shard] += which(choice) ? 1U : 0U;
  }
  std::inclusive_scan(counts_.begin(), counts_.end(), counts_.begin());
  const std::size_t total = counts_.back();
  for (std::size_t i = choices.size(); i-- > 0;) {
    if (which(choices[i])) {
      const std::size_t place = --counts_[choices[i].shard];
      leaves_[place] = choices[i].leaf;
      weights_[place] = choices[i].weight;
    }
  }
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    const std::size_t end = s + 1 < counts_.size() ? counts_[s + 1] : total;
    if (end != counts_[s]) {
      call(s, std::span(leaves_).subspan(counts_[s], end - counts_[s]),
           std::span(weights_).subspan(counts_[s], end - counts_[s]));
    }
  }
}

void SnapshotDraw::hide(const All& all, std::span<const Choice> choices) noexcept {
  any_hidden_ = true;
  const auto hidden = [](const Choice& choice) { return choice.hidden; };
  by_shard(choices, hidden, [&](std::size_t s, auto leaves, auto) {
    shard::LockedShard& shard = all[s];
    shard.selector(selector_).hide(leaves);
  });
}

/// Shows the chosen items again for which `which` is true.
template <class Which>
void SnapshotDraw::show(const All& all, Which which) noexcept {
  by_shard(chosen_, which, [&](std::size_t s, auto leaves, auto weights) {
    shard::LockedShard& shard = all[s];
    shard.selector(selector_).show(leaves, weights);
  });
}

void SnapshotDraw::undo(const All& all) noexcept {
  for (const Choice& choice : chosen_) {
    shard::LockedShard& shard = all[choice.shard];
    shard.limit().take_back(choice.leaf);
  }
  show(all, [](const Choice& choice) { return choice.hidden; });
  chosen_.clear();
}

/// Exhausts the items that had their last draw, and shows the other hidden items again. Sorts
/// choices by weight by their shard and leaf.
void SnapshotDraw::settle(const All& all) noexcept {
  const auto before = [](const Choice& a, const Choice& b) {
    return std::tie(a.shard, a.leaf) < std::tie(b.shard, b.leaf);
  };
  // With most selectors the draws of a round are sorted already, and later rounds are short.
  const auto rest =
      ordered_ ? chosen_.end() : std::is_sorted_until(chosen_.begin(), chosen_.end(), before);
  if (rest != chosen_.end()) {
    std::sort(rest, chosen_.end(), before);
    round_.resize(chosen_.size());
    std::merge(chosen_.begin(), rest, rest, chosen_.end(), round_.begin(), before);
    chosen_.swap(round_);
  }
  const auto exhausted = [](const Choice& choice) { return choice.exhausted; };
  by_shard(chosen_, exhausted, [&](std::size_t s, auto leaves, auto) {
    shard::LockedShard& shard = all[s];
    shard.limit().exhaust(leaves);
  });
  if (any_hidden_) {
    show(all, [](const Choice& choice) { return choice.hidden && !choice.exhausted; });
  }
}

/// Writes keys, places, probabilities and pins. Each shard writes all its draws at once. Ordered
/// draws alternate between shards, so each shard writes them to scratch, from which they are put
/// into the batch in order.
void SnapshotDraw::fill_batch(const All& all, Drawing& drawing) noexcept {
  const shard::Slots& batch = drawing.slots;
  std::fill(counts_.begin(), counts_.end(), 0);
  for (const Choice& choice : chosen_) {
    ++counts_[choice.shard];
  }
  std::exclusive_scan(counts_.begin(), counts_.end(), counts_.begin(), std::size_t{0});
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    const std::size_t at = counts_[chosen_[i].shard]++;
    leaves_[at] = chosen_[i].leaf;
    batch.probabilities[i] = probability(static_cast<double>(chosen_[i].weight), chosen_.size());
    chosen_[i].first = static_cast<std::uint32_t>(at);
  }
  shard::Slots to = batch;
  to.leaves = leaves_;
  if (ordered_) {
    to.keys = std::span(keys_).first(batch.size());
    to.places = places_;
  }
  for (std::size_t s = 0, begin = 0; s < counts_.size(); begin = counts_[s++]) {
    if (const std::size_t count = counts_[s] - begin; count != 0) {
      shard::LockedShard& shard = all[s];
      drawing.add(s, {count, shard.fill_slots(to.sub(begin, count))});
    }
  }
  for (std::size_t i = 0; ordered_ && i < chosen_.size(); ++i) {
    batch.keys[i] = keys_[chosen_[i].first];
    batch.places[i] = places_[chosen_[i].first];
  }
  facts_.lowest_drawn = *std::ranges::min_element(batch.probabilities);
}

}  // namespace reprise::sampler
