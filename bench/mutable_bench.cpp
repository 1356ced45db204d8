// A column of 64 floats that may change beside one that may not: 512 items drawn, 512 read by key,
// and 512 values replaced. One thread, 2^17 steps, uniform draws.

#include <reprise/reprise.hpp>

#include "measure.hpp"

#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace {

using bench::kBatch;

constexpr std::size_t kSteps = std::size_t{1} << 17U;
constexpr std::size_t kValues = 64;

template <bool Mutable>
class Buffer {
 public:
  explicit Buffer(std::size_t steps)
      : replay_(schema_, {.capacity_steps = steps}), sampler_(replay_.sampler({.seed = 1})) {
    reprise::Writer writer = replay_.writer();
    writer.begin_episode();
    writer.now(id_) = 0;
    for (std::uint64_t step = 0; step < steps; ++step) {
      std::ranges::fill(writer.now(column_), static_cast<float>(step));
      writer.next(id_) = step + 1;
      if (writer.commit() != reprise::CommitStatus::Committed) {
        throw std::logic_error("a step was not taken");
      }
    }
    draw();
  }

  void draw() {
    if (sampler_.sample_into(batch_, 0, kBatch).code != reprise::SampleStatus::Code::Ok) {
      throw std::logic_error("no batch");
    }
    benchmark::DoNotOptimize(batch_.now(column_).data());
  }
  void gather() { benchmark::DoNotOptimize(replay_.gather(batch_.keys(), batch_)); }
  void update_priorities() {
    benchmark::DoNotOptimize(replay_.update_priorities(batch_.keys(), priorities_.next()).applied);
  }
  void update() {
    benchmark::DoNotOptimize(replay_.update(batch_.keys(), column_, values_).applied);
  }

 private:
  auto make_column() {
    if constexpr (Mutable) {
      return schema_.mutable_column<float>("column", {kValues});
    } else {
      return schema_.column<float>("column", {kValues});
    }
  }

  reprise::Schema schema_;
  reprise::ScalarObservation<std::uint64_t> id_ = schema_.observation<std::uint64_t>("id");
  std::conditional_t<Mutable, reprise::MutableColumn<float>, reprise::Column<float>> column_ =
      make_column();
  reprise::ReplayBuffer replay_;
  reprise::Sampler sampler_;
  reprise::Batch batch_ = replay_.make_batch(kBatch);
  bench::Priorities priorities_;
  std::vector<float> values_ = std::vector<float>(kBatch * kValues, 1.0F);
};

using Fixed = Buffer<false>;
using Changing = Buffer<true>;

template <class Subject, void (Subject::*Call)()>
void drawn(benchmark::State& state) {
  auto& buffer = bench::prepared<Subject>(kSteps);
  for (auto _ : state) {
    (buffer.*Call)();
  }
  bench::per_item(state, kBatch);
}

/// Each call has another batch's keys, drawn outside of what is timed.
template <class Subject, void (Subject::*Call)()>
void named(benchmark::State& state) {
  auto& buffer = bench::prepared<Subject>(kSteps);
  for (auto _ : state) {
    state.PauseTiming();
    buffer.draw();
    state.ResumeTiming();
    (buffer.*Call)();
  }
  bench::per_item(state, kBatch);
}

BENCHMARK_TEMPLATE(drawn, Fixed, &Fixed::draw)->Name("mutable/batch/fixed");
BENCHMARK_TEMPLATE(drawn, Changing, &Changing::draw)->Name("mutable/batch/mutable");
BENCHMARK_TEMPLATE(named, Fixed, &Fixed::gather)->Name("mutable/gather/fixed");
BENCHMARK_TEMPLATE(named, Changing, &Changing::gather)->Name("mutable/gather/mutable");
BENCHMARK_TEMPLATE(named, Changing, &Changing::update)->Name("mutable/update/values");
BENCHMARK_TEMPLATE(named, Changing, &Changing::update_priorities)
    ->Name("mutable/update/priorities");

}  // namespace
