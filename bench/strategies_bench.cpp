// Compares every selector and every remover with the plainest one, through the public API:
// selectors by the cycle of W1, removers by one writer's appends to a full buffer.

#include <reprise/reprise.hpp>

#include "measure.hpp"
#include "reprise_items.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace {

using bench::kBatch;
using bench::RepriseItems;
using Clock = std::chrono::steady_clock;

/// Number of appends per iteration, and number of items that follow them in a draw, for removers
/// that go by draws.
constexpr std::size_t kRun = 512;
constexpr std::size_t kDrawn = 32;
/// Number of cycles before the first that is timed.
constexpr int kWarmUp = 1000;

/// Returns options with enough chunks for a remover to choose among.
reprise::Options options_with_remover(std::size_t size, const reprise::Remover& remover) {
  return {.capacity_steps = size,
          .selectors = {RepriseItems::proportional()},
          .remover = remover,
          .chunk_steps = 512};
}

/// A full buffer with the options that Make()(size) returns. Each strategy has a type Make of its
/// own, by which `prepared` tells the buffers apart.
template <class Make, reprise::Draws draws = reprise::Draws::Stratified>
struct Items : RepriseItems {
  explicit Items(std::size_t size) : RepriseItems(Make()(size), {.draws = draws}) {}
};

/// A full buffer whose sampler takes a quarter of each batch from fresh items.
struct Fresh : RepriseItems {
  static constexpr float kShare = 0.25F;
  explicit Fresh(std::size_t size)
      : RepriseItems({.capacity_steps = size, .selectors = {proportional()}}, {}, kShare) {}
};

/// Measures the cycle of W1 after `appends` appends.
template <class Subject, std::size_t appends>
void cycle(benchmark::State& state) {
  auto& items = bench::prepared<Subject>(bench::size_of(state));
  const auto round = [&] {
    for (std::size_t i = 0; i < appends; ++i) {
      items.append();
    }
    items.draw();
    items.update();
  };
  // The first cycles are not timed: the first draw by rank sorts all items and touches new memory.
  for (int i = 0; i < kWarmUp; ++i) {
    round();
  }
  for (auto _ : state) {
    round();
  }
  bench::per_item(state, kBatch);
}

/// Adds a benchmark of appends. `drawn` is the number of items drawn after each run of appends, so
/// that a remover that goes by draws has work.
template <class Subject>
void add_appends(const std::string& name, std::size_t drawn) {
  bench::add_sizes<Subject>(name, {16, 20}, kRun, [drawn](Subject& items) {
    for (std::size_t i = 0; i < kRun; ++i) {
      items.append();
    }
    if (drawn != 0) {
      items.draw(drawn);
    }
  });
}

enum class TimedPart : std::uint8_t { Append, Draw };

/// A buffer with a limit of `times` draws per item; 0: no limit.
template <std::uint32_t times, std::uint32_t per_step, std::size_t shards>
struct Exhausted : RepriseItems {
  explicit Exhausted(std::size_t size)
      : RepriseItems({.capacity_steps = size,
                      .selectors = {reprise::Uniform{}},
                      .max_times_sampled = times,
                      .rate_limiter = reprise::MinSize{size / 2},
                      .shards = shards}) {}
};

/// Measures commits or draws where every item is drawn as often as the limit `times` allows. An
/// iteration commits a run of kRun steps and draws `per_step` batches of as many items; only the
/// commits or only the draws are timed.
template <TimedPart part, std::uint32_t times, std::uint32_t per_step, std::size_t shards>
void exhausted(benchmark::State& state) {
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
    const Clock::duration timed = part == TimedPart::Append ? appends : draws / per_step;
    state.SetIterationTime(std::chrono::duration<double>(timed).count());
  }
  // Share of the batches that could be drawn; for the others the buffer had too few items.
  state.counters["drawn"] = static_cast<double>(drawn) / static_cast<double>(rounds);
  bench::per_item(state, kRun);
}

template <class Subject, std::size_t appends = 0>
void add_cycle(const std::string& name) {
  benchmark::RegisterBenchmark(name.c_str(), cycle<Subject, appends>)->Arg(16)->Arg(20);
}

/// Adds the benchmarks of a selector. `make(size)` returns the selector, or a buffer's options.
template <reprise::Draws draws = reprise::Draws::Stratified, class Make>
void add_selector(const std::string& name, Make /*make*/) {
  const auto options = [](std::size_t size) {
    if constexpr (std::is_same_v<std::invoke_result_t<Make, std::size_t>, reprise::Options>) {
      return Make()(size);
    } else {
      return reprise::Options{.capacity_steps = size, .selectors = {Make()(size)}};
    }
  };
  using Subject = Items<decltype(options), draws>;
  add_cycle<Subject>("select/cycle/" + name);
  add_appends<Subject>("select/append/" + name, 0);
}

template <class Remover>
void add_remover(const std::string& name) {
  const auto options = [](std::size_t size) { return options_with_remover(size, Remover{}); };
  add_appends<Items<decltype(options)>>("remove/append/" + name, kDrawn);
}

template <std::uint32_t times, std::uint32_t per_step, std::size_t shards>
void add_exhausted(const std::string& name) {
  const auto add_half = [&](const std::string& half, auto* run) {
    constexpr std::int64_t kCapacity = 100'000;
    benchmark::RegisterBenchmark(("exhausted/" + half + "/" + name).c_str(), run)
        ->Arg(kCapacity)
        ->UseManualTime();
  };
  add_half("append", exhausted<TimedPart::Append, times, per_step, shards>);
  add_half("draw", exhausted<TimedPart::Draw, times, per_step, shards>);
}

const bool added = [] {
  using reprise::Draws;
  const auto proportional = [](std::size_t) { return RepriseItems::proportional(); };
  const auto uniform = [](std::size_t) { return reprise::Uniform{}; };
  add_selector("proportional", proportional);
  add_selector("uniform", uniform);
  add_selector("rank_based", [](auto) { return reprise::RankBased{.alpha = bench::kAlpha}; });
  add_selector("recency", [](std::size_t size) {
    return reprise::Recency{.p = 4.0F / static_cast<float>(size)};
  });
  add_selector("loss_adjusted", [](auto) { return reprise::LossAdjusted{.alpha = bench::kAlpha}; });
  add_selector("mixture",
               [](auto) { return reprise::Mixture{.uniform = 0.25F, .alpha = bench::kAlpha}; });
  add_selector("fifo", [](auto) { return reprise::Fifo{}; });
  add_selector("lifo", [](auto) { return reprise::Lifo{}; });
  add_selector("min_heap", [](auto) { return reprise::MinHeap{}; });
  add_selector("max_heap", [](auto) { return reprise::MaxHeap{}; });
  add_selector<Draws::WithoutReplacement>("without_replacement", proportional);
  add_selector<Draws::Epoch>("epoch", uniform);
  // The buffer counts the draws of each item, although no item ever reaches the limit.
  add_selector("max_times_sampled", [](std::size_t size) {
    return reprise::Options{.capacity_steps = size,
                            .selectors = {RepriseItems::proportional()},
                            .max_times_sampled = std::numeric_limits<std::uint32_t>::max()};
  });
  add_cycle<RepriseItems, kBatch / 4>("select/fresh/none");
  add_cycle<Fresh, kBatch / 4>("select/fresh/quarter");
  add_exhausted<0, 1, 1>("no_limit/1_shard");
  add_exhausted<1, 1, 1>("once/1_shard");
  add_exhausted<0, 3, 1>("no_limit_of_3/1_shard");
  add_exhausted<3, 3, 1>("3_times/1_shard");
  add_exhausted<0, 1, 4>("no_limit/4_shards");
  add_exhausted<1, 1, 4>("once/4_shards");
  add_exhausted<3, 3, 4>("3_times/4_shards");
  add_remover<reprise::Fifo>("fifo");
  add_remover<reprise::SecondChance>("second_chance");
  add_remover<reprise::LeastRecentlySampled>("least_recently_sampled");
  add_remover<reprise::LeastFrequentlySampled>("least_frequently_sampled");
  add_remover<reprise::LowestPriority>("lowest_priority");
  return true;
}();

}  // namespace
