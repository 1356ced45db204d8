// Compares a mutable column of 64 floats with an immutable one: drawing 512 items, reading 512
// items by key, and replacing the values of 512 items. One thread, 2^17 steps, uniform draws.

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

template <class Subject>
void add_draw(const std::string& name) {
  bench::add<Subject>(name, kSteps, kBatch, [](Subject& buffer) { buffer.draw(); });
}

/// Times `call`, which uses the keys of the last batch. Before each iteration a new batch is drawn,
/// which is not timed.
template <class Subject>
void add_by_key(const std::string& name, void (Subject::*call)()) {
  benchmark::RegisterBenchmark(name.c_str(), [call](benchmark::State& state) {
    auto& buffer = bench::prepared<Subject>(kSteps);
    for (auto _ : state) {
      state.PauseTiming();
      buffer.draw();
      state.ResumeTiming();
      (buffer.*call)();
    }
    bench::per_item(state, kBatch);
  });
}

[[maybe_unused]] const bool added = [] {
  add_draw<Fixed>("mutable/batch/fixed");
  add_draw<Changing>("mutable/batch/mutable");
  add_by_key("mutable/gather/fixed", &Fixed::gather);
  add_by_key("mutable/gather/mutable", &Changing::gather);
  add_by_key("mutable/update/values", &Changing::update);
  add_by_key("mutable/update/priorities", &Changing::update_priorities);
  return true;
}();

}  // namespace
