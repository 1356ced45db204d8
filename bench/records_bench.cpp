// Loads that others have published, as shapes of rows, batches and rates, and the share of one core
// that reprise needs for each. docs/records.md tells who published them; bench/python/loads.py has
// the same table. One thread does the work of the actors and of the learner in turn.

#include <reprise/reprise.hpp>

#include "measure.hpp"
#include "records.hpp"

#include <time.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace {

constexpr std::size_t kFrame = 84 * 84;
/// Episodes have kEpisode steps. An environment ends its episodes kStagger calls before the
/// environment of the next lower number does, so that few episodes end in the same call.
constexpr std::size_t kEpisode = 1000;
constexpr std::size_t kStagger = 97;

struct Load {
  std::string name;
  std::size_t capacity;      ///< Capacity in steps.
  std::size_t steps;         ///< Steps appended per second.
  std::size_t batches;       ///< Batches drawn per second.
  std::size_t items;         ///< Items of a batch.
  std::size_t environments;  ///< A call appends one step of each environment.
  std::size_t observation;   ///< Bytes of an observation; 0: none.
  std::size_t column;        ///< Floats of the action, or of the whole step.
  std::size_t state;         ///< Floats of the recurrent state; 0: none.
  bool prioritized;
  reprise::Window window;
  std::int64_t rounds;  ///< Number of batches measured.
};

std::vector<Load> loads() {
  using reprise::Sequences;
  using reprise::Transitions;
  const reprise::Window stacks = Transitions{.n_step = 3, .frame_stack = 4};
  const reprise::Window r2d2 = Sequences{.length = 80, .period = 40, .n_step = 5, .frame_stack = 4};
  const reprise::Window slices =
      Sequences{.length = 4, .period = 1, .end = reprise::SequenceEnd::Drop};
  return {
      {"Ape-X", 500'000, 12'500, 19, 512, 360, kFrame, 1, 0, true, stacks, 300},
      {"R2D2", 500'000, 66'560, 5, 64, 256, kFrame, 1, 1024, true, r2d2, 200},
      {"Reverb", 100'000, 0, 118, 256, 1, 0, 10'000, 0, false, Transitions{}, 500},
      {"Spreeze", 1'000'000, 15'000, 45, 8192, 16, 88, 6, 0, false, Transitions{}, 1000},
      {"FastTD3", 4'194'304, 40'960, 20, 32'768, 4096, 492, 37, 0, false, Transitions{.n_step = 3},
       200},
      {"DreamerV3", 250'000, 80, 10, 16, 1, 64 * 64 * 3, 1, 0, false,
       Sequences{.length = 64, .period = 1}, 500},
      {"TD-MPC2", 20'000'000, 0, 20, 256, 1, 96, 6, 0, false, slices, 3000},
  };
}

class Records {
 public:
  explicit Records(const Load& load) : load_(load) {
    while (replay_.stats().committed_steps < load.capacity + load.capacity / 8) {
      for (std::size_t i = 0; i < 1 + 4096 / load.environments; ++i) {
        append();
      }
    }
    draw();
  }

  /// Appends the steps that come between two batches.
  void append_share() {
    due_ += static_cast<double>(load_.steps) / static_cast<double>(load_.batches);
    for (; due_ >= static_cast<double>(load_.environments);
         due_ -= static_cast<double>(load_.environments)) {
      append();
    }
  }
  void draw() {
    const auto batch = sampler_.sample(load_.items, {.beta = bench::kBeta});
    benchmark::DoNotOptimize(batch->weights().data());
    if (load_.prioritized) {
      benchmark::DoNotOptimize(replay_.update_priorities(batch->keys(), priorities_.next()));
    }
  }
  double memory_bytes() const { return static_cast<double>(replay_.stats().touched_bytes); }
  std::size_t row_bytes() const { return schema_.step_bytes(); }

 private:
  void append() {
    ++calls_;
    for (std::size_t e = 0; e < ends_.size(); ++e) {
      const bool last = (calls_ + e * kStagger) % kEpisode == 0;
      ends_[e] = last ? reprise::End::Terminated : reprise::End::Continue;
    }
    // Each call appends the random rows from another place on.
    const std::size_t shift = calls_ % bench::kSources;
    const auto rows = [&](std::size_t bytes) {
      return std::as_bytes(std::span(noise_)).subspan(shift * bytes, ends_.size() * bytes);
    };
    std::vector<reprise::AnyValue> values{
        {reprise::AnyField(reward_), /*next=*/false, rows(sizeof(float))},
        {reprise::AnyField(column_), /*next=*/false, rows(load_.column * sizeof(float))}};
    if (state_) {
      values.push_back(
          {reprise::AnyField(*state_), /*next=*/false, rows(load_.state * sizeof(float))});
    }
    std::vector<reprise::AnyValue> finals;
    if (observation_) {
      values.push_back({reprise::AnyField(*observation_), /*next=*/true, rows(load_.observation)});
      finals.push_back(values.back());
      if (calls_ == 1) {
        writers_.begin(std::vector<reprise::AnyValue>{
            {reprise::AnyField(*observation_), /*next=*/false, rows(load_.observation)}});
      }
    }
    writers_.append(ends_, values, finals);
  }
  reprise::Options options() const {
    reprise::Options options{.capacity_steps = load_.capacity,
                             .window = load_.window,
                             .max_writers = load_.environments};
    options.selectors = {reprise::Uniform{}};
    if (load_.prioritized) {
      options.selectors = {
          reprise::Proportional{.alpha = bench::kAlpha, .epsilon = bench::kEpsilon}};
    }
    return options;
  }
  /// Makes random bytes for all fields: floats in [0, 1), so that no field of floats has a NaN.
  static std::vector<float> noise(const Load& load) {
    const std::size_t bytes =
        std::max({load.observation, load.column * sizeof(float), load.state * sizeof(float)});
    std::vector<float> floats((load.environments + bench::kSources) * (bytes / sizeof(float) + 1));
    bench::Random random(7);
    std::ranges::generate(floats, [&] { return static_cast<float>(random.uniform()); });
    return floats;
  }

  Load load_;
  std::vector<float> noise_ = noise(load_);
  std::vector<reprise::End> ends_ = std::vector<reprise::End>(load_.environments);
  std::size_t calls_ = 0;
  double due_ = 0;
  bench::Priorities priorities_ = bench::Priorities(load_.items);
  reprise::Schema schema_;
  reprise::Reward reward_ = schema_.reward("reward");
  reprise::Column<float> column_ = schema_.column<float>("column", {load_.column});
  std::optional<reprise::RecurrentState<float>> state_ =
      load_.state == 0 ? std::nullopt
                       : std::optional(schema_.recurrent_state<float>("state", {load_.state}));
  std::optional<reprise::Observation<std::uint8_t>> observation_ =
      load_.observation == 0
          ? std::nullopt
          : std::optional(schema_.observation<std::uint8_t>("observation", {load_.observation}));
  reprise::ReplayBuffer replay_ = reprise::ReplayBuffer(schema_, options());
  reprise::VectorWriter writers_ =
      reprise::VectorWriter(replay_, load_.environments, {}, reprise::AutoReset::SameStep);
  // The sampler gathers on one thread, and copies each frame of an item once.
  reprise::Sampler sampler_ =
      replay_.sampler({.seed = 1,
                       .unique_frames = load_.observation >= kFrame,
                       .parallel_gather_bytes = std::numeric_limits<std::size_t>::max()});
};

/// Returns the processor time of this thread, which other programs on the machine do not change.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

/// Measures rounds. A round appends the steps that come between two batches, then draws a batch.
void run(benchmark::State& state, const Load& load) {
  Records records(load);
  bench::Latencies batches(static_cast<std::size_t>(load.rounds));
  double appending = 0;
  double drawing = 0;
  for (auto _ : state) {
    const double begin = processor_seconds();
    records.append_share();
    const double middle = processor_seconds();
    batches.time([&] { records.draw(); });
    appending += middle - begin;
    drawing += processor_seconds() - middle;
  }
  const double per_second = static_cast<double>(load.batches) / static_cast<double>(load.rounds);
  state.counters["appends"] = appending * per_second;
  state.counters["batches"] = drawing * per_second;
  state.counters["p50_us"] = batches.quantile(0.5) / 1e3;
  state.counters["p99_us"] = batches.quantile(0.99) / 1e3;
  state.counters["bytes_per_step"] = records.memory_bytes() / static_cast<double>(load.capacity);
  state.counters["row_bytes"] = static_cast<double>(records.row_bytes());
  state.SetLabel(std::to_string(load.steps) + " in, " + std::to_string(load.batches) + " x " +
                 std::to_string(load.items) + " out per second, of " +
                 std::to_string(load.capacity) + " steps");
}

}  // namespace

void bench::add_records(bool quick) {
  for (Load& load : loads()) {
    if (quick) {
      load.capacity /= 10;
      load.rounds = 3;
    }
    benchmark::RegisterBenchmark(("records/" + load.name).c_str(),
                                 [=](benchmark::State& state) { run(state, load); })
        ->Iterations(load.rounds)
        ->Unit(benchmark::kMillisecond);
  }
}
