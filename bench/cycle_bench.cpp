// W1 through the public API: a learner draws 512 items with their importance weights and sets 512
// priorities. Locks, the look for news from writers, pins and keys are included; rows are not
// gathered.

#include "measure.hpp"
#include "reprise_items.hpp"
#include "textbook_items.hpp"

#include <array>
#include <mutex>

namespace {

using bench::kBatch;

using bench::RepriseItems;

/// The textbook's trees under its mutex.
class TextbookLocked {
 public:
  explicit TextbookLocked(std::size_t size) : items_(size) {
    bench::Random random(1);
    for (std::size_t i = 0; i < size; ++i) {
      items_.set(i, static_cast<float>(random.uniform()));
    }
  }

  void draw() {
    const std::lock_guard lock(mutex_);
    items_.draw(random_, drawn_, weights_);
    benchmark::DoNotOptimize(weights_.data());
  }
  void update(std::span<const float> priorities) {
    const std::lock_guard lock(mutex_);
    items_.update(drawn_, priorities);
  }

 private:
  std::mutex mutex_;
  bench::TextbookItems items_;
  bench::Random random_{2};
  std::array<std::uint32_t, kBatch> drawn_{};
  std::array<float, kBatch> weights_{};
};

/// Two buffers of half the items each, whose items make one batch.
template <bool by_total>
class MixedItems {
 public:
  explicit MixedItems(std::size_t size)
      : one_(half(size, 1)),
        other_(half(size, 2)),
        sampler_(made(one_.replay(), other_.replay())) {}

  void draw() {
    batch_ = &*sampler_.sample({.beta = bench::kBeta, .gather = false});
    benchmark::DoNotOptimize(batch_->weights().data());
  }
  void update(std::span<const float> priorities) {
    benchmark::DoNotOptimize(sampler_.update_priorities(batch_->keys(), priorities));
  }

 private:
  static reprise::Options half(std::size_t size, std::uint16_t tag) {
    return {
        .capacity_steps = size / 2, .selectors = {RepriseItems::proportional()}, .key_tag = tag};
  }
  static reprise::MixedSampler made(reprise::ReplayBuffer& one, reprise::ReplayBuffer& other) {
    if constexpr (by_total) {
      return reprise::MixedSampler({one, other}, kBatch);
    } else {
      return reprise::MixedSampler({{one, kBatch / 2}, {other, kBatch / 2}});
    }
  }

  RepriseItems one_;
  RepriseItems other_;
  reprise::MixedSampler sampler_;
  const reprise::Batch* batch_ = nullptr;
};

template <class Items>
void draw(benchmark::State& state) {
  auto& items = bench::prepared<Items>(bench::size_of(state));
  for (auto _ : state) {
    items.draw();
  }
  bench::per_item(state, kBatch);
}

template <class Items>
void cycle(benchmark::State& state) {
  auto& items = bench::prepared<Items>(bench::size_of(state));
  bench::Priorities priorities;
  for (auto _ : state) {
    items.draw();
    items.update(priorities.next());
  }
  bench::per_item(state, kBatch);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(14)->Arg(16)->Arg(18)->Arg(20)->Arg(22)->Arg(23);
}

BENCHMARK_TEMPLATE(draw, RepriseItems)->Name("W1/draw/reprise")->Arg(20);
BENCHMARK_TEMPLATE(draw, TextbookLocked)->Name("W1/draw/textbook")->Arg(20);
BENCHMARK_TEMPLATE(cycle, RepriseItems)->Name("W1/cycle/reprise")->Apply(sizes);
BENCHMARK_TEMPLATE(cycle, TextbookLocked)->Name("W1/cycle/textbook")->Apply(sizes);
// Beside W1/cycle/reprise: as many items in all, in two buffers.
BENCHMARK_TEMPLATE(cycle, MixedItems<false>)->Name("mixed/exact/reprise")->Arg(14)->Arg(20);
BENCHMARK_TEMPLATE(cycle, MixedItems<true>)->Name("mixed/common_total/reprise")->Arg(14)->Arg(20);

}  // namespace
