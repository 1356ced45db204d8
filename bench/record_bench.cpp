// W4, the recording half of Chen and Wang's experiment: 100 steps of four floats, an action and a
// reward into a full buffer of N steps. The other half draws windows of eight consecutive steps,
// which the kinds of window that there are do not express.

#include <reprise/reprise.hpp>

#include "measure.hpp"
#include "textbook.hpp"

#include <cstring>
#include <stdexcept>

namespace {

constexpr std::size_t kRecords = 100;
constexpr std::size_t kState = 4;

/// Episodes of 2^s steps: on the diagonal of the experiment's pairs (k, s), from 2^(5 + 6) to
/// 2^(11 + 12) steps in all, both grow alike.
std::size_t episode_steps(std::size_t size) {
  std::size_t log = 0;
  while ((std::size_t{2} << log) <= size) {
    ++log;
  }
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
  explicit RepriseSteps(std::size_t size)
      : episode_(episode_steps(size)),
        replay_(schema_, {.capacity_steps = size,
                          .selectors = {reprise::Proportional{.alpha = bench::kAlpha,
                                                              .epsilon = bench::kEpsilon}}}) {
    bench::Random random(8);
    for (std::size_t i = 0; i < size + size / 4; ++i) {
      const auto priority = static_cast<float>(random.uniform());
      record({&priority, 1});
    }
    if (replay_.size() != size) {  // Asking takes in everything that was committed.
      throw std::logic_error("the buffer did not fill");
    }
  }

  void record(std::span<const float> priority = {}) {
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
    writer_.commit(last ? reprise::End::Terminated : reprise::End::Continue, priority);
  }

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
};

class TextbookSteps {
 public:
  explicit TextbookSteps(std::size_t size) : buffer_(sizeof(Step), size) {
    bench::Random random(8);
    for (std::size_t i = 0; i < size; ++i) {
      buffer_.add(next_source(), static_cast<float>(random.uniform()));
    }
  }

  void record() { buffer_.add(next_source()); }

 private:
  std::span<const std::byte> next_source() {
    return std::as_bytes(std::span(&sources_[steps_++ % sources_.size()], 1));
  }

  std::vector<Step> sources_ = sources();
  std::size_t steps_ = 0;
  textbook::Buffer buffer_;
};

/// One iteration is the experiment's record_100.
template <class Steps>
void record(benchmark::State& state) {
  auto& steps = bench::prepared<Steps>(bench::size_of(state));
  for (auto _ : state) {
    for (std::size_t i = 0; i < kRecords; ++i) {
      steps.record();
    }
  }
  bench::per_item(state, kRecords);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(11)->Arg(14)->Arg(16)->Arg(18)->Arg(20)->Arg(23);
}

BENCHMARK_TEMPLATE(record, RepriseSteps)->Name("W4/record/reprise")->Apply(sizes);
BENCHMARK_TEMPLATE(record, TextbookSteps)->Name("W4/record/textbook")->Apply(sizes);

}  // namespace
