// W1: batches of 512 updates, draws and priorities to weigh, and runs of appends, beside the
// textbook: an implicit binary tree of double sums and one of minima, and std::pow. Time per item.

#include "base/random.hpp"
#include "tree/weighing.hpp"
#include "tree/weight_tree.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace {

using reprise::base::Random;
using reprise::tree::WeightTree;

constexpr std::size_t kBatch = 512;
constexpr std::size_t kBatches = 2048;

/// What a competent user writes.
class TextbookTree {
 public:
  explicit TextbookTree(std::size_t leaves)
      : leaves_(leaves),
        sums_(2 * leaves, 0.0),
        minima_(2 * leaves, std::numeric_limits<double>::infinity()) {}

  double total() const { return sums_[1]; }
  void assign(std::span<const std::uint32_t> leaves, std::span<const float> weights) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      assign_one(leaves[i], static_cast<double>(weights[i]));
    }
  }
  void assign_run(std::uint32_t first, std::span<const float> weights) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      assign_one(first + i, static_cast<double>(weights[i]));
    }
  }
  void find(std::span<double> targets, std::span<std::uint32_t> leaves, std::span<float> weights) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      std::size_t node = 1;
      double target = targets[i];
      while (node < leaves_) {
        node *= 2;
        if (target >= sums_[node]) {
          target -= sums_[node];
          ++node;
        }
      }
      leaves[i] = static_cast<std::uint32_t>(node - leaves_);
      weights[i] = static_cast<float>(sums_[node]);
    }
  }

 private:
  void assign_one(std::size_t leaf, double weight) {
    std::size_t node = leaf + leaves_;
    sums_[node] = minima_[node] = weight;
    while (node > 1) {
      node /= 2;
      sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
      minima_[node] = std::min(minima_[2 * node], minima_[2 * node + 1]);
    }
  }

  std::size_t leaves_;
  std::vector<double> sums_;
  std::vector<double> minima_;
};

/// A full tree of random weights, and batches made beforehand.
template <class Tree>
struct Setup {
  explicit Setup(const benchmark::State& state)
      : size(std::size_t{1} << static_cast<unsigned>(state.range(0))), tree(size) {
    Random random(1);
    std::vector<float> all(size);
    std::generate(all.begin(), all.end(),
                  [&] { return static_cast<float>(random.uniform()) + 1e-4F; });
    tree.assign_run(0, all);
    leaves.resize(kBatch * kBatches);
    std::generate(leaves.begin(), leaves.end(),
                  [&] { return static_cast<std::uint32_t>(random.next() % size); });
    weights.assign(all.begin(), all.begin() + kBatch);
  }
  std::span<const std::uint32_t> batch(std::size_t i) const {
    return std::span(leaves).subspan(i % kBatches * kBatch, kBatch);
  }

  std::size_t size;
  Tree tree;
  std::vector<std::uint32_t> leaves;
  std::vector<float> weights;
};

void per_item(benchmark::State& state, std::size_t items_per_iteration = kBatch) {
  const auto items =
      static_cast<double>(state.iterations()) * static_cast<double>(items_per_iteration);
  state.SetItemsProcessed(static_cast<std::int64_t>(items));
  state.counters["per_item"] =
      benchmark::Counter(items, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

template <class Tree>
void update(benchmark::State& state) {
  Setup<Tree> setup(state);
  std::size_t i = 0;
  for (auto _ : state) {
    setup.tree.assign(setup.batch(i++), setup.weights);
  }
  benchmark::DoNotOptimize(setup.tree.total());
  per_item(state);
}

template <class Tree>
void draw(benchmark::State& state) {
  Setup<Tree> setup(state);
  Random random(2);
  std::vector<double> targets(kBatch);
  std::vector<std::uint32_t> leaves(kBatch);
  std::vector<float> weights(kBatch);
  for (auto _ : state) {
    const double total = setup.tree.total();
    for (double& target : targets) {
      target = random.uniform() * total;
    }
    setup.tree.find(targets, leaves, weights);
    benchmark::DoNotOptimize(leaves.data());
  }
  per_item(state);
}

template <class Tree>
void append(benchmark::State& state) {
  const auto run = static_cast<std::size_t>(state.range(1));
  Setup<Tree> setup(state);
  std::size_t at = 0;
  for (auto _ : state) {
    setup.tree.assign_run(static_cast<std::uint32_t>(at), std::span(setup.weights).first(run));
    at = (at + run) % setup.size;
  }
  benchmark::DoNotOptimize(setup.tree.total());
  per_item(state, run);
}

constexpr float kAlpha = 0.6F;
constexpr float kEpsilon = 1e-4F;

std::vector<float> priorities() {
  Random random(3);
  std::vector<float> all(kBatch);
  std::generate(all.begin(), all.end(), [&] { return static_cast<float>(random.uniform()); });
  return all;
}

void weigh_reprise(benchmark::State& state) {
  const std::vector<float> from = priorities();
  std::vector<float> to(kBatch);
  for (auto _ : state) {
    reprise::tree::weigh(from, kAlpha, kEpsilon, to);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  per_item(state);
}

void weigh_textbook(benchmark::State& state) {
  const std::vector<float> from = priorities();
  std::vector<float> to(kBatch);
  for (auto _ : state) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      to[i] =
          static_cast<float>(std::pow(static_cast<double>(from[i]) + static_cast<double>(kEpsilon),
                                      static_cast<double>(kAlpha)));
    }
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  per_item(state);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(16)->Arg(20)->Arg(23);
}
void sizes_and_runs(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({16, 512})->Args({20, 512})->Args({23, 512})->Args({20, 1})->Args({20, 32});
}

BENCHMARK_TEMPLATE(update, WeightTree)->Name("W1/tree_update/reprise")->Apply(sizes);
BENCHMARK_TEMPLATE(update, TextbookTree)->Name("W1/tree_update/textbook")->Apply(sizes);
BENCHMARK_TEMPLATE(draw, WeightTree)->Name("W1/tree_find/reprise")->Apply(sizes);
BENCHMARK_TEMPLATE(draw, TextbookTree)->Name("W1/tree_find/textbook")->Apply(sizes);
BENCHMARK_TEMPLATE(append, WeightTree)->Name("W1/tree_append/reprise")->Apply(sizes_and_runs);
BENCHMARK_TEMPLATE(append, TextbookTree)->Name("W1/tree_append/textbook")->Apply(sizes_and_runs);
BENCHMARK(weigh_reprise)->Name("W1/weigh/reprise");
BENCHMARK(weigh_textbook)->Name("W1/weigh/textbook");

}  // namespace
