// Compares every selector and remover with the plainest one: the cycle of W1, and appends of one
// writer into a full buffer, through the public API.

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

/// Number of appends per iteration, and of items drawn after them where the remover uses draws.
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

/// The items of a buffer with the options that Make()(size) returns. Make makes each strategy a
/// type, so that `prepared` tells them apart.
template <class Make, reprise::Draws draws = reprise::Draws::Stratified>
struct Items : RepriseItems {
  explicit Items(std::size_t size) : RepriseItems(Make()(size), {.draws = draws}) {}
};

/// A quarter of each batch is fresh, so as many steps are appended in each cycle.
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
  // The first draw by rank sorts all items and touches new memory; later cycles do not.
  for (int i = 0; i < kWarmUp; ++i) {
    round();
  }
  for (auto _ : state) {
    round();
  }
  bench::per_item(state, kBatch);
}

/// Adds a benchmark of appends. `drawn`: number of items drawn after each run of appends, so that a
/// remover that uses draws has work.
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

/// Measures commits or draws of a buffer in which every item is drawn as often as the limit `times`
/// allows. Each iteration commits a run of steps and draws `per_step` times as many items. With
/// `times` 0 there is no limit. Only the chosen `Half` is timed.
enum class TimedPart : std::uint8_t { Append, Draw };

template <std::uint32_t times, std::uint32_t per_step, std::size_t shards>
struct Exhausted : RepriseItems {
  explicit Exhausted(std::size_t size)
      : RepriseItems({.capacity_steps = size,
                      .selectors = {reprise::Uniform{}},
                      .max_times_sampled = times,
                      .rate_limiter = reprise::MinSize{size / 2},
                      .shards = shards}) {}
};

template <TimedPart half, std::uint32_t times, std::uint32_t per_step, std::size_t shards>
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
    const Clock::duration timed = half == TimedPart::Append ? appends : draws / per_step;
    state.SetIterationTime(std::chrono::duration<double>(timed).count());
  }
  // Share of draws that succeeded; the others found too few items.
  state.counters["drawn"] = static_cast<double>(drawn) / static_cast<double>(rounds);
  bench::per_item(state, kRun);
}

template <class Subject, std::size_t appends = 0>
void add_cycle(const std::string& name) {
  benchmark::RegisterBenchmark(name.c_str(), cycle<Subject, appends>)->Arg(16)->Arg(20);
}

/// `make(size)` returns a selector, or the options of a buffer.
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
  // Draws are counted, although no item reaches the limit.
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
