// W4, the experiment of Chen and Wang: a full buffer of N steps, each of four floats, an action and
// a reward. `record` appends 100 more steps. `get5000` draws 5000 windows of eight consecutive
// steps by priority, with the observation after each step.

#include <reprise/reprise.hpp>

#include "measure.hpp"
#include "textbook_rows.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace {

constexpr std::size_t kRecords = 100;
constexpr std::size_t kWindows = 5000;
constexpr std::size_t kLength = 8;
constexpr std::size_t kState = 4;

/// Returns the length 2^s of episodes for a buffer of 2^(k + s) steps. Of the experiment's pairs
/// (k, s), the benchmarks take those on the diagonal from (5, 6) to (11, 12), where s = k + 1.
std::size_t episode_steps(std::size_t size) {
  const auto log = static_cast<std::size_t>(std::bit_width(size)) - 1;
  return std::size_t{1} << (6 + (log - 11) / 2);
}

struct Step {
  float state[kState];
  std::int32_t action;
  float reward;
};

std::vector<Step> sources() {
  std::vector<Step> steps(bench::kSources);
  bench::Random random(7);
  for (Step& step : steps) {
    std::generate(std::begin(step.state), std::end(step.state),
                  [&] { return static_cast<float>(random.uniform()); });
    step.action = static_cast<std::int32_t>(random.next() % 2);
    step.reward = 1.0F;
  }
  return steps;
}

class RepriseSteps {
 public:
  explicit RepriseSteps(std::size_t size) : RepriseSteps(size, episode_steps(size)) {}
  RepriseSteps(std::size_t size, std::size_t episode)
      : episode_(episode),
        replay_(schema_, {.capacity_steps = size,
                          .window = reprise::Sequences{.length = kLength, .period = 1},
                          .selectors = {reprise::Proportional{.alpha = bench::kAlpha,
                                                              .epsilon = bench::kEpsilon}}}) {
    bench::Random random(8);
    float priorities[kLength] = {};
    for (std::size_t i = 0; i < size + size / 4; ++i) {
      std::generate(std::begin(priorities), std::end(priorities),
                    [&] { return static_cast<float>(random.uniform()); });
      record(priorities);
    }
    if (replay_.size() != size) {  // size() ingests everything that was committed.
      throw std::logic_error("the buffer did not fill");
    }
  }

  void record(std::span<const float> priorities = {}) {
    const Step& step = sources_[steps_ % sources_.size()];
    if (!writer_.in_episode()) {
      writer_.begin_episode();
      std::memcpy(writer_.now(state_).data(), step.state, sizeof(step.state));
    }
    writer_.now(action_) = step.action;
    writer_.now(reward_) = step.reward;
    const Step& next = sources_[++steps_ % sources_.size()];
    std::memcpy(writer_.next(state_).data(), next.state, sizeof(next.state));
    const bool last = steps_ % episode_ == 0;
    const reprise::End end = last ? reprise::End::Terminated : reprise::End::Continue;
    // Items get the given priorities while the buffer is filled, and the initial priority later.
    writer_.commit(end, priorities.first(priorities.empty() ? 0 : writer_.completing(end)));
  }
  void get() { benchmark::DoNotOptimize(sampler_.sample(kWindows, {.beta = bench::kBeta})); }

 private:
  std::size_t episode_;
  std::vector<Step> sources_ = sources();
  std::size_t steps_ = 0;
  reprise::Schema schema_;
  reprise::Observation<float> state_ = schema_.observation<float>("state", {kState});
  reprise::ScalarColumn<std::int32_t> action_ = schema_.column<std::int32_t>("action");
  reprise::Reward reward_ = schema_.reward("reward");
  reprise::ReplayBuffer replay_;
  reprise::Writer writer_ = replay_.writer();
  reprise::Sampler sampler_ = replay_.sampler({.seed = 9});
};

class TextbookSteps : public bench::TextbookRows<Step> {
 public:
  explicit TextbookSteps(std::size_t size) : TextbookRows(size, sources()) {}

  void record() { append(1); }
  /// Gathers into columns, as reprise does.
  void get() {
    buffer().sample_windows(
        kWindows, kLength, static_cast<double>(bench::kBeta), weights_, indices_,
        [this](std::size_t window, std::size_t k, const std::byte* row, const std::byte* next) {
          const std::size_t at = window * kLength + k;
          std::memcpy(&states_[at * kState], row, sizeof(Step::state));
          std::memcpy(&next_[at * kState], next, sizeof(Step::state));
          std::memcpy(&actions_[at], row + offsetof(Step, action), sizeof(Step::action));
          std::memcpy(&rewards_[at], row + offsetof(Step, reward), sizeof(Step::reward));
        });
    benchmark::DoNotOptimize(states_.data());
  }

 private:
  std::vector<float> states_ = std::vector<float>(kWindows * kLength * kState);
  std::vector<float> next_ = states_;
  std::vector<std::int32_t> actions_ = std::vector<std::int32_t>(kWindows * kLength);
  std::vector<float> rewards_ = std::vector<float>(kWindows * kLength);
  std::vector<float> weights_ = std::vector<float>(kWindows);
  std::vector<std::uint32_t> indices_ = std::vector<std::uint32_t>(kWindows);
};

/// The experiment's call record_100, which appends kRecords steps.
template <class Steps>
void record_100(Steps& steps) {
  for (std::size_t i = 0; i < kRecords; ++i) {
    steps.record();
  }
}

template <class Call>
double median_us(const Call& call) {
  constexpr std::size_t kCalls = 51;
  bench::Latencies latencies(kCalls);
  for (std::size_t i = 0; i < kCalls; ++i) {
    latencies.time(call);
  }
  return 1e-3 * latencies.quantile(0.5);
}

/// Measures the experiment's 169 pairs: 2^k episodes of 2^s steps, k from 5 to 11 and s from 6 to
/// 12 in steps of a half. An iteration goes through all pairs and reports the slowest medians.
void points(benchmark::State& state) {
  double record = 0.0;
  double get = 0.0;
  for (auto _ : state) {
    for (int k = 10; k <= 22; ++k) {
      for (int s = 12; s <= 24; ++s) {
        const auto episode = static_cast<std::size_t>(std::lround(std::exp2(0.5 * s)));
        const auto episodes = static_cast<std::size_t>(std::lround(std::exp2(0.5 * k)));
        RepriseSteps steps(episodes * episode, episode);
        get = std::max(get, median_us([&] { steps.get(); }));
        record = std::max(record, median_us([&] { record_100(steps); }));
      }
    }
  }
  state.counters["slowest_get_us"] = get;
  state.counters["slowest_record_us"] = record;
}

[[maybe_unused]] const bool added = [] {
  const auto sizes = {11, 14, 16, 18, 20, 23};
  const auto record = [](auto& steps) { record_100(steps); };
  const auto get = [](auto& steps) { steps.get(); };
  bench::add_sizes<RepriseSteps>("W4/record/reprise", sizes, kRecords, record);
  bench::add_sizes<TextbookSteps>("W4/record/textbook", sizes, kRecords, record);
  bench::add_sizes<RepriseSteps>("W4/get5000/reprise", sizes, kWindows, get);
  bench::add_sizes<TextbookSteps>("W4/get5000/textbook", sizes, kWindows, get);
  benchmark::RegisterBenchmark("W4/points/reprise", points)
      ->Iterations(1)
      ->Unit(benchmark::kSecond);
  return true;
}();

}  // namespace
