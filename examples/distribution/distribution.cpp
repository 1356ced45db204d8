// Draws from 100 items of rising priority through every selector, raises the priorities of items 0
// to 30, and draws again. Compares the counts of draws with their exact expectation, and makes a
// picture of both:
//
//   distribution [FILE.svg]
//
// Exits with 0 if all counts fit and the picture is written.
#include <reprise/reprise.hpp>

#include "picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kDraws = 100'000;
constexpr std::size_t kRaised = 31;
constexpr std::size_t kBatch = 10;  // Items of a batch of a selector that draws in order.
constexpr float kAlpha = 0.6F;
constexpr float kRankAlpha = 0.7F;

using Priorities = std::array<float, kItems>;

/// The indices of the selectors in `Options::selectors`.
enum SelectorIndex : std::uint8_t {
  Uniform,
  Proportional,
  RankBased,
  Fifo,
  Lifo,
  MinHeap,
  MaxHeap
};

/// Returns the rank of an item by priority; the highest priority has rank 1.
double rank(const Priorities& priorities, std::size_t item) {
  return 1.0 + static_cast<double>(std::ranges::count_if(
                   priorities, [&](float other) { return other > priorities.at(item); }));
}

double weight(SelectorIndex selector, const Priorities& priorities, std::size_t item) {
  switch (selector) {
    case Proportional:
      return std::pow(double{priorities.at(item)}, double{kAlpha});
    case RankBased:
      return std::pow(rank(priorities, item), -double{kRankAlpha});
    default:
      return 1.0;
  }
}

Histogram draw(reprise::ReplayBuffer& replay, SelectorIndex selector, const std::string& name,
               const Priorities& priorities, std::uint64_t seed) {
  Histogram result{.selector = name};
  auto sampler = replay.selector(selector).sampler({.seed = seed});
  const auto batch = sampler.sample(kDraws, {.draws = reprise::Draws::Independent});
  for (const auto item : batch->positions()) {
    result.drawn.at(item) += 1.0;
  }
  for (std::size_t item = 0; item < kItems; ++item) {
    result.expected.at(item) = weight(selector, priorities, item);
  }
  const double total = std::accumulate(result.expected.begin(), result.expected.end(), 0.0);
  for (double& expected : result.expected) {
    expected *= double{kDraws} / total;
  }
  return result;
}

/// Returns whether the counts fit: Pearson's chi-square is within four standard deviations of its
/// mean, by the approximation of Wilson and Hilferty (1931).
bool fits(const Histogram& data) {
  double statistic = 0.0;
  for (std::size_t item = 0; item < kItems; ++item) {
    const double difference = data.drawn.at(item) - data.expected.at(item);
    statistic += difference * difference / data.expected.at(item);
  }
  constexpr double kFreedom = kItems - 1.0;
  constexpr double kVariance = 2.0 / (9.0 * kFreedom);
  const double z = (std::cbrt(statistic / kFreedom) - (1.0 - kVariance)) / std::sqrt(kVariance);
  std::printf("  %-24s chi-square %5.1f for %.0f degrees of freedom, %+.1f standard deviations\n",
              data.selector.c_str(), statistic, kFreedom, z);
  return std::abs(z) < 4.0;
}

OrderedBatch draw_in_order(reprise::ReplayBuffer& replay, SelectorIndex selector,
                           const std::string& name) {
  OrderedBatch result{.selector = name};
  auto sampler = replay.selector(selector).sampler();
  const auto batch = sampler.sample(kBatch);
  for (const auto item : batch->positions()) {
    result.items.at(item) = true;
  }
  return result;
}

/// Returns whether the batch holds exactly the kBatch items from `first` on.
bool holds(const OrderedBatch& batch, std::size_t first) {
  std::printf("  %-24s", batch.selector.c_str());
  bool good = true;
  for (std::size_t item = 0; item < kItems; ++item) {
    good = good && batch.items.at(item) == (item >= first && item < first + kBatch);
    if (batch.items.at(item)) {
      std::printf(" %zu", item);
    }
  }
  std::puts("");
  return good;
}

Stage stage(reprise::ReplayBuffer& replay, const std::string& title, const Priorities& priorities,
            std::uint64_t seed) {
  return {
      .title = title,
      .histograms = {draw(replay, Uniform, "Uniform", priorities, seed),
                     draw(replay, Proportional, "Proportional, alpha 0.6", priorities, seed),
                     draw(replay, RankBased, "RankBased, alpha 0.7", priorities, seed)},
      .batches = {draw_in_order(replay, Fifo, "Fifo"), draw_in_order(replay, Lifo, "Lifo"),
                  draw_in_order(replay, MinHeap, "MinHeap"),
                  draw_in_order(replay, MaxHeap, "MaxHeap")},
  };
}

/// Returns whether all draws fit. `firsts` are the first items that the ordered batches should
/// hold.
bool check(const Stage& stage, const std::array<std::size_t, 4>& firsts) {
  std::puts(stage.title.c_str());
  bool good = true;
  for (const Histogram& histogram : stage.histograms) {
    good = fits(histogram) && good;
  }
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    good = holds(stage.batches.at(i), firsts.at(i)) && good;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  // All selectors draw from the same items, each by weights of its own.
  reprise::Schema schema;
  const auto number = schema.column<std::int32_t>("number");
  reprise::ReplayBuffer replay(
      schema,
      {.capacity_steps = kItems,
       .selectors = {reprise::Uniform{}, reprise::Proportional{.alpha = kAlpha, .epsilon = 0.0F},
                     reprise::RankBased{.alpha = kRankAlpha}, reprise::Fifo{}, reprise::Lifo{},
                     reprise::MinHeap{}, reprise::MaxHeap{}},
       .episode_index = true});

  Priorities priorities{};
  std::iota(priorities.begin(), priorities.end(), 1.0F);
  auto writer = replay.writer();
  writer.begin_episode();
  for (const float& priority : priorities) {
    writer.now(number) = static_cast<std::int32_t>(priority);
    writer.commit(reprise::End::Continue, std::span(&priority, 1));
  }
  std::vector<Stage> stages = {stage(replay, "Item i has priority i + 1", priorities, 1)};

  for (std::size_t item = 0; item < kRaised; ++item) {
    priorities.at(item) += 100.0F;
  }
  for (const SelectorIndex selector :
       {Uniform, Proportional, RankBased, Fifo, Lifo, MinHeap, MaxHeap}) {
    replay.episodes().update_priorities(writer.episode_id(), 0,
                                        std::span(priorities).first(kRaised), selector);
  }
  stages.push_back(stage(replay, "After 100 was added to those of items 0 to 30", priorities, 2));

  const bool before = check(stages[0], {0, 90, 0, 90});
  const bool after = check(stages[1], {0, 90, 31, 21});
  bool written = true;
  if (argc > 1) {
    std::ofstream file(argv[1]);
    file << picture("100,000 draws of 100 items", stages);
    written = file.flush().good();
  }
  return before && after && written ? 0 : 1;
}
