// Every selector and remover, each beside the plainest: the cycle of W1 and appends of one writer
// into a full buffer, through the public API.

#include <reprise/reprise.hpp>

#include "measure.hpp"
#include "reprise_items.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace {

using bench::kBatch;
using bench::RepriseItems;

/// Appends per iteration, and items drawn after them where removers listen to draws.
constexpr std::size_t kRun = 512;
constexpr std::size_t kDrawn = 32;
/// Cycles before any is timed.
constexpr int kWarmUp = 1000;

using Strategy = reprise::Options (*)(std::size_t size);

reprise::Options selected_by(std::size_t size, const reprise::Selector& selector) {
  return {.capacity_steps = size, .selectors = {selector}};
}

/// With chunks enough for a remover to choose among.
reprise::Options removed_by(std::size_t size, const reprise::Remover& remover) {
  return {.capacity_steps = size,
          .selectors = {RepriseItems::proportional()},
          .remover = remover,
          .chunk_steps = 512};
}

/// One subject per strategy, so that `prepared` tells them apart.
template <Strategy make, reprise::Draws draws = reprise::Draws::Stratified>
struct Items : RepriseItems {
  explicit Items(std::size_t size) : RepriseItems(make(size), {.draws = draws}) {}
};

/// A quarter of each batch was never drawn before, so as much is appended in each cycle.
struct Fresh : RepriseItems {
  static constexpr float kShare = 0.25F;
  explicit Fresh(std::size_t size)
      : RepriseItems({.capacity_steps = size, .selectors = {proportional()}}, {}, kShare) {}
};

/// The cycle of W1 with appends of a quarter of a batch, with fresh items first or without.
template <class Subject>
void cycle_with_appends(benchmark::State& state) {
  auto& items = bench::prepared<Subject>(bench::size_of(state));
  bench::Priorities priorities;
  const auto round = [&] {
    for (std::size_t i = 0; i < kBatch / 4; ++i) {
      items.append();
    }
    items.draw();
    items.update(priorities.next());
  };
  for (int i = 0; i < kWarmUp; ++i) {
    round();
  }
  for (auto _ : state) {
    round();
  }
  bench::per_item(state, kBatch);
}

template <class Subject>
void cycle(benchmark::State& state) {
  auto& items = bench::prepared<Subject>(bench::size_of(state));
  bench::Priorities priorities;
  // The first draw by rank sorts all items, and then memory is touched for the first time; a cycle
  // is what comes after.
  for (int i = 0; i < kWarmUp; ++i) {
    items.draw();
    items.update(priorities.next());
  }
  for (auto _ : state) {
    items.draw();
    items.update(priorities.next());
  }
  bench::per_item(state, kBatch);
}

/// `drawn`: items drawn after each run, so that a remover that listens to draws has news.
template <class Subject, std::size_t drawn>
void append(benchmark::State& state) {
  auto& items = bench::prepared<Subject>(bench::size_of(state));
  for (auto _ : state) {
    for (std::size_t i = 0; i < kRun; ++i) {
      items.append();
    }
    if (drawn != 0) {
      items.draw(drawn);
    }
  }
  bench::per_item(state, kRun);
}

using Size = std::size_t;
reprise::Options uniform(Size n) {
  return selected_by(n, reprise::Uniform{});
}
reprise::Options proportional(Size n) {
  return selected_by(n, RepriseItems::proportional());
}
reprise::Options rank_based(Size n) {
  return selected_by(n, reprise::RankBased{.alpha = bench::kAlpha});
}
reprise::Options loss_adjusted(Size n) {
  return selected_by(n, reprise::LossAdjusted{.alpha = bench::kAlpha});
}
reprise::Options mixture(Size n) {
  return selected_by(n, reprise::Mixture{.uniform = 0.25F, .alpha = bench::kAlpha});
}
reprise::Options recency(Size n) {
  return selected_by(n, reprise::Recency{.p = 4.0F / static_cast<float>(n)});
}
reprise::Options fifo(Size n) {
  return selected_by(n, reprise::Fifo{});
}
reprise::Options lifo(Size n) {
  return selected_by(n, reprise::Lifo{});
}
reprise::Options min_heap(Size n) {
  return selected_by(n, reprise::MinHeap{});
}
reprise::Options max_heap(Size n) {
  return selected_by(n, reprise::MaxHeap{});
}
/// Draws are counted, and no item is ever drawn as often as it may be.
reprise::Options limited(Size n) {
  reprise::Options options = proportional(n);
  options.max_times_sampled = std::numeric_limits<std::uint32_t>::max();
  return options;
}

reprise::Options by_age(Size n) {
  return removed_by(n, reprise::Fifo{});
}
reprise::Options second_chance(Size n) {
  return removed_by(n, reprise::SecondChance{});
}
reprise::Options least_recent(Size n) {
  return removed_by(n, reprise::LeastRecentlySampled{});
}
reprise::Options least_frequent(Size n) {
  return removed_by(n, reprise::LeastFrequentlySampled{});
}
reprise::Options lowest_priority(Size n) {
  return removed_by(n, reprise::LowestPriority{});
}

/// Commits and draws of a buffer in which every item is drawn as often as it may be: each iteration
/// commits a run and draws as many items as the limit admits of one. `times` 0: the same without a
/// limit, `per_step` draws per step. Only the half that is asked for is timed.
enum class Half : std::uint8_t { Append, Draw };

template <std::uint32_t times, std::uint32_t per_step, std::size_t shards>
struct Exhausted : RepriseItems {
  explicit Exhausted(std::size_t size)
      : RepriseItems({.capacity_steps = size,
                      .selectors = {reprise::Uniform{}},
                      .max_times_sampled = times,
                      .rate_limiter = reprise::MinSize{size / 2},
                      .shards = shards}) {}
};

template <Half half, std::uint32_t times, std::uint32_t per_step, std::size_t shards>
void exhausted(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  auto& items =
      bench::prepared<Exhausted<times, per_step, shards>>(static_cast<std::size_t>(state.range(0)));
  std::size_t drawn = 0;
  std::size_t rounds = 0;
  const auto round = [&](Clock::duration& appends, Clock::duration& draws) {
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < kRun; ++i) {
      items.append();
    }
    const auto middle = Clock::now();
    for (std::uint32_t i = 0; i < per_step; ++i) {
      drawn += items.try_draw(kRun) ? 1U : 0U;
    }
    rounds += per_step;
    appends += middle - begin;
    draws += Clock::now() - middle;
  };
  Clock::duration appends{0};
  Clock::duration draws{0};
  for (int i = 0; i < kWarmUp; ++i) {
    round(appends, draws);
  }
  for (auto _ : state) {
    appends = draws = Clock::duration{0};
    round(appends, draws);
    const Clock::duration timed = half == Half::Append ? appends : draws / per_step;
    state.SetIterationTime(std::chrono::duration<double>(timed).count());
  }
  // Of the draws; the others found too few items.
  state.counters["drawn"] = static_cast<double>(drawn) / static_cast<double>(rounds);
  bench::per_item(state, kRun);
}

template <class Subject>
void register_selector(const std::string& name) {
  benchmark::RegisterBenchmark(("select/cycle/" + name).c_str(), cycle<Subject>)->Arg(16)->Arg(20);
  benchmark::RegisterBenchmark(("select/append/" + name).c_str(), append<Subject, 0>)
      ->Arg(16)
      ->Arg(20);
}

template <std::uint32_t times, std::uint32_t per_step, std::size_t shards>
void register_exhausted(const std::string& name) {
  constexpr std::int64_t kCapacity = 100'000;
  benchmark::RegisterBenchmark(("exhausted/append/" + name).c_str(),
                               exhausted<Half::Append, times, per_step, shards>)
      ->Arg(kCapacity)
      ->UseManualTime();
  benchmark::RegisterBenchmark(("exhausted/draw/" + name).c_str(),
                               exhausted<Half::Draw, times, per_step, shards>)
      ->Arg(kCapacity)
      ->UseManualTime();
}

template <Strategy make>
void register_remover(const std::string& name) {
  benchmark::RegisterBenchmark(("remove/append/" + name).c_str(), append<Items<make>, kDrawn>)
      ->Arg(16)
      ->Arg(20);
}

const bool registered = [] {
  register_selector<Items<proportional>>("proportional");
  register_selector<Items<uniform>>("uniform");
  register_selector<Items<rank_based>>("rank_based");
  register_selector<Items<recency>>("recency");
  register_selector<Items<loss_adjusted>>("loss_adjusted");
  register_selector<Items<mixture>>("mixture");
  register_selector<Items<fifo>>("fifo");
  register_selector<Items<lifo>>("lifo");
  register_selector<Items<min_heap>>("min_heap");
  register_selector<Items<max_heap>>("max_heap");
  register_selector<Items<proportional, reprise::Draws::WithoutReplacement>>("without_replacement");
  register_selector<Items<uniform, reprise::Draws::Epoch>>("epoch");
  register_selector<Items<limited>>("max_times_sampled");
  for (const std::int64_t size : {16, 20}) {
    benchmark::RegisterBenchmark("select/fresh/none", cycle_with_appends<Items<proportional>>)
        ->Arg(size);
    benchmark::RegisterBenchmark("select/fresh/quarter", cycle_with_appends<Fresh>)->Arg(size);
  }
  register_exhausted<0, 1, 1>("no_limit/1_shard");
  register_exhausted<1, 1, 1>("once/1_shard");
  register_exhausted<0, 3, 1>("no_limit_of_3/1_shard");
  register_exhausted<3, 3, 1>("3_times/1_shard");
  register_exhausted<0, 1, 4>("no_limit/4_shards");
  register_exhausted<1, 1, 4>("once/4_shards");
  register_exhausted<3, 3, 4>("3_times/4_shards");
  register_remover<by_age>("fifo");
  register_remover<second_chance>("second_chance");
  register_remover<least_recent>("least_recently_sampled");
  register_remover<least_frequent>("least_frequently_sampled");
  register_remover<lowest_priority>("lowest_priority");
  return true;
}();

}  // namespace
