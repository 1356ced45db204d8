#include "remote/draft.hpp"

#include "sampler/importance.hpp"
#include "select/allot.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace reprise::remote {
namespace {

double sum_of(const std::vector<Draft::Known>& known) noexcept {
  return std::accumulate(known.begin(), known.end(), 0.0,
                         [](double sum, const Draft::Known& shard) { return sum + shard.total; });
}

}  // namespace

Draft::Draft(window::BatchStore& batch, std::size_t offset, std::size_t n,
             const SampleOptions& options, std::vector<Known> known, base::Random& random)
    : batch_(batch),
      offset_(offset),
      n_(n),
      beta_(options.beta),
      normalise_(options.normalise),
      draws_(options.draws),
      targets_(batch.window().targets(options.n_step, options.discount)),
      known_(std::move(known)) {
  allot({{0, n}}, random);
}

/// Adds a run for each shard with weight, also if it gets no place, and several runs if its places
/// are not consecutive.
void Draft::allot(std::vector<Places> places, base::Random& random) {
  const double sum = sum_of(known_);
  if (!(sum > 0.0)) {
    runs_.clear();
    return;
  }
  std::vector<double> shares(known_.size());
  std::ranges::transform(known_, shares.begin(),
                         [=](const Known& shard) { return shard.total / sum; });
  const std::size_t n =
      std::accumulate(places.begin(), places.end(), std::size_t{0},
                      [](std::size_t count, const Places& some) { return count + some.count; });
  std::vector<std::size_t> counts(known_.size());
  select::allot_counts(shares, n, random.uniform(), counts);
  auto place = places.begin();
  for (std::size_t s = 0; s < known_.size(); ++s) {
    if (!(known_[s].total > 0.0)) {
      continue;
    }
    std::size_t left = counts[s];
    do {
      while (left != 0 && place->count == 0) {
        ++place;
      }
      const std::size_t count = left == 0 ? 0 : std::min(left, place->count);
      const std::size_t begin = count == 0 ? 0 : std::exchange(place->begin, place->begin + count);
      runs_.push_back({.id = next_run_++, .shard = s, .begin = begin, .count = count});
      left -= count;
      if (count != 0) {
        place->count -= count;
      }
    } while (left != 0);
  }
}

Draft::Run* Draft::find(std::uint64_t id) noexcept {
  const auto found = std::ranges::find(runs_, id, &Run::id);
  return found == runs_.end() ? nullptr : &*found;
}

void Draft::fill(Run& run, const window::BatchStore& answer, std::uint64_t incarnation) noexcept {
  batch_.copy_from(answer, run.count, offset_ + run.begin);
  fill(run, incarnation);
}

void Draft::fill(Run& run, std::uint64_t incarnation) noexcept {
  run.incarnation = incarnation;
  run.filled = true;
}

bool Draft::waits_for(std::size_t shard) const noexcept {
  return std::ranges::any_of(runs_,
                             [=](const Run& run) { return run.shard == shard && !run.filled; });
}

bool Draft::ready() const noexcept {
  return !nothing_left() && std::ranges::all_of(runs_, &Run::filled);
}

std::size_t Draft::leave_out(std::size_t shard, base::Random& random) {
  std::vector<Places> places;
  std::size_t count = 0;
  for (const Run& run : runs_) {
    if (run.shard == shard && run.count != 0) {
      places.push_back({run.begin, run.count});
      count += run.count;
    }
  }
  std::erase_if(runs_, [=](const Run& run) { return run.shard == shard; });
  known_[shard] = {};
  allot(std::move(places), random);
  return count;
}

ShardClient::Origins Draft::finish() noexcept(false) {
  ShardClient::Origins origins{std::vector<std::uint32_t>(n_), std::vector<std::uint64_t>(n_)};
  const double sum = sum_of(known_);
  sampler::DrawFacts facts{0.0, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::infinity()};
  for (const Known& shard : known_) {
    if (shard.total > 0.0) {
      facts.items += shard.items;
      facts.lowest_probability = std::min(facts.lowest_probability, shard.min_positive / sum);
    }
  }
  const std::span<double> probabilities(batch_.probabilities + offset_, n_);
  for (const Run& run : runs_) {
    const double share = known_[run.shard].total / sum;
    for (std::size_t i = run.begin; i < run.begin + run.count; ++i) {
      probabilities[i] *= share;
      facts.lowest_drawn = std::min(facts.lowest_drawn, probabilities[i]);
      origins.shards[i] = static_cast<std::uint32_t>(run.shard);
      origins.incarnations[i] = run.incarnation;
    }
  }
  sampler::weigh(probabilities, facts, beta_, normalise_, std::span(batch_.weights + offset_, n_));
  batch_.size = std::max(batch_.size, offset_ + n_);
  return origins;
}

}  // namespace reprise::remote
