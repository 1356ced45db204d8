// W1 through the public API: a learner draws 512 items with their importance weights and sets 512
// priorities. Locks, the look for news from writers, pins and keys are included; rows are not
// gathered.

#include <reprise/reprise.hpp>

#include "measure.hpp"
#include "textbook_items.hpp"

#include <array>
#include <mutex>
#include <optional>
#include <stdexcept>

namespace {

using bench::kBatch;

/// A full buffer of random priorities. Its rows are as small as they can be.
class RepriseItems {
 public:
  explicit RepriseItems(std::size_t size)
      : RepriseItems(size,
                     reprise::Proportional{.alpha = bench::kAlpha, .epsilon = bench::kEpsilon}) {}

  RepriseItems(std::size_t size, const reprise::Selector& selector)
      : replay_(schema_, {.capacity_steps = size, .selectors = {selector}}) {
    auto writer = replay_.writer();
    writer.begin_episode();
    writer.now(state_) = 0;
    bench::Random random(1);
    for (std::size_t i = 0; i < size; ++i) {
      writer.next(state_) = 0;
      const auto priority = static_cast<float>(random.uniform());
      writer.commit(reprise::End::Continue, {&priority, 1});
    }
    if (replay_.size() != size) {  // Asking takes in everything that was committed.
      throw std::logic_error("the buffer did not fill");
    }
    sampler_.emplace(replay_.sampler({.seed = 1}));
  }

  void draw() {
    batch_ = &*sampler_->sample(kBatch, {.beta = bench::kBeta, .gather = false});
    benchmark::DoNotOptimize(batch_->weights().data());
  }
  void update(std::span<const float> priorities) {
    benchmark::DoNotOptimize(replay_.update_priorities(batch_->keys(), priorities));
  }

 private:
  reprise::Schema schema_;
  reprise::ScalarObservation<std::uint8_t> state_ = schema_.observation<std::uint8_t>("state");
  reprise::ReplayBuffer replay_;
  std::optional<reprise::Sampler> sampler_;
  const reprise::Batch* batch_ = nullptr;
};

/// The same, drawn by rank.
class RankBasedItems : public RepriseItems {
 public:
  explicit RankBasedItems(std::size_t size)
      : RepriseItems(size, reprise::RankBased{.alpha = bench::kAlpha}) {}
};

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
BENCHMARK_TEMPLATE(draw, RankBasedItems)->Name("W1/draw/rank_based")->Arg(20);
BENCHMARK_TEMPLATE(draw, TextbookLocked)->Name("W1/draw/textbook")->Arg(20);
BENCHMARK_TEMPLATE(cycle, RepriseItems)->Name("W1/cycle/reprise")->Apply(sizes);
BENCHMARK_TEMPLATE(cycle, RankBasedItems)->Name("W1/cycle/rank_based")->Apply(sizes);
BENCHMARK_TEMPLATE(cycle, TextbookLocked)->Name("W1/cycle/textbook")->Apply(sizes);

}  // namespace
