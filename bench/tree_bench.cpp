// W1 on the trees alone, without locks: batches of 512 updates, draws and appends, from raw
// priorities to importance weights.

#include "measure.hpp"
#include "textbook_items.hpp"
#include "tree/weighing.hpp"
#include "tree/weight_tree.hpp"

#include <array>
#include <cmath>

namespace {

using bench::kAlpha;
using bench::kBatch;
using bench::kEpsilon;

/// The tree within the proportional selector.
class RepriseTree {
 public:
  explicit RepriseTree(std::size_t size) : tree_(size) {}

  void update(std::span<const std::uint32_t> items, std::span<const float> priorities) {
    reprise::tree::weigh(priorities, kAlpha, kEpsilon, weights_);
    tree_.assign(items, weights_);
  }
  /// A run of items at the highest priority in the tree.
  void append(std::size_t first, std::size_t count) {
    const std::span<float> run = std::span(weights_).first(count);
    std::fill(run.begin(), run.end(), tree_.max());
    tree_.assign_run(static_cast<std::uint32_t>(first), run);
  }
  void assign_run(std::size_t first, std::span<const float> priorities) {
    const std::span<float> run = std::span(weights_).first(priorities.size());
    reprise::tree::weigh(priorities, kAlpha, kEpsilon, run);
    tree_.assign_run(static_cast<std::uint32_t>(first), run);
  }
  void draw(bench::Random& random, std::span<std::uint32_t> items, std::span<float> weights) {
    const double total = tree_.total();
    const double part = total / static_cast<double>(kBatch);
    for (std::size_t i = 0; i < kBatch; ++i) {
      targets_[i] = (static_cast<double>(i) + random.uniform()) * part;
    }
    tree_.find(targets_, items, weights_);
    for (std::size_t i = 0; i < kBatch; ++i) {
      targets_[i] = static_cast<double>(weights_[i]) / total;
    }
    reprise::tree::importance(targets_, static_cast<double>(tree_.leaves()), bench::kBeta,
                              static_cast<double>(tree_.min_positive()) / total, weights);
  }

 private:
  reprise::tree::WeightTree tree_;
  std::array<float, kBatch> weights_{};
  std::array<double, kBatch> targets_{};
};

class TextbookTree : public bench::TextbookItems {
 public:
  using TextbookItems::TextbookItems;

  void append(std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      set(first + i, 1.0F);
    }
  }
  void assign_run(std::size_t first, std::span<const float> priorities) {
    for (std::size_t i = 0; i < priorities.size(); ++i) {
      set(first + i, priorities[i]);
    }
  }
};

/// A tree of random priorities, and batches of random items made beforehand.
template <class Tree>
class Subject {
 public:
  explicit Subject(std::size_t size) : tree(size), size_(size), items_(kBatch * kBatches) {
    randomize();
    bench::Random random(2);
    std::generate(items_.begin(), items_.end(),
                  [&] { return static_cast<std::uint32_t>(random.next() % size); });
  }
  void randomize() {
    for (std::size_t first = 0; first < size_; first += kBatch) {
      tree.assign_run(first, priorities.next());
    }
  }
  std::span<const std::uint32_t> batch(std::size_t i) const {
    return std::span(items_).subspan(i % kBatches * kBatch, kBatch);
  }

  Tree tree;
  bench::Priorities priorities;

 private:
  static constexpr std::size_t kBatches = 2048;
  std::size_t size_;
  std::vector<std::uint32_t> items_;
};

template <class Tree>
void update(benchmark::State& state) {
  auto& subject = bench::prepared<Subject<Tree>>(bench::size_of(state));
  std::size_t i = 0;
  for (auto _ : state) {
    subject.tree.update(subject.batch(i++), subject.priorities.next());
    benchmark::ClobberMemory();
  }
  bench::per_item(state, kBatch);
}

template <class Tree>
void draw(benchmark::State& state) {
  auto& subject = bench::prepared<Subject<Tree>>(bench::size_of(state));
  bench::Random random(2);
  std::vector<std::uint32_t> items(kBatch);
  std::vector<float> weights(kBatch);
  for (auto _ : state) {
    subject.tree.draw(random, items, weights);
    benchmark::DoNotOptimize(items.data());
    benchmark::DoNotOptimize(weights.data());
    benchmark::ClobberMemory();
  }
  bench::per_item(state, kBatch);
}

/// All priorities are random again after each round, or else a tree that stops at unchanged parents
/// would append for nothing.
template <class Tree>
void append(benchmark::State& state) {
  const std::size_t size = bench::size_of(state);
  auto& subject = bench::prepared<Subject<Tree>>(size);
  std::size_t at = 0;
  for (auto _ : state) {
    subject.tree.append(at, kBatch);
    benchmark::ClobberMemory();
    at = (at + kBatch) % size;
    if (at == 0) {
      state.PauseTiming();
      subject.randomize();
      state.ResumeTiming();
    }
  }
  bench::per_item(state, kBatch);
}

void weigh_reprise(benchmark::State& state) {
  bench::Priorities priorities;
  std::array<float, kBatch> to{};
  for (auto _ : state) {
    reprise::tree::weigh(priorities.next(), kAlpha, kEpsilon, to);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  bench::per_item(state, kBatch);
}

void weigh_textbook(benchmark::State& state) {
  bench::Priorities priorities;
  std::array<double, kBatch> to{};
  for (auto _ : state) {
    const std::span<const float> from = priorities.next();
    for (std::size_t i = 0; i < kBatch; ++i) {
      to[i] = std::pow(static_cast<double>(from[i]) + static_cast<double>(kEpsilon),
                       static_cast<double>(kAlpha));
    }
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  bench::per_item(state, kBatch);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(16)->Arg(20)->Arg(23);
}

BENCHMARK_TEMPLATE(update, RepriseTree)->Name("W1/tree_update/reprise")->Apply(sizes);
BENCHMARK_TEMPLATE(update, TextbookTree)->Name("W1/tree_update/textbook")->Apply(sizes);
BENCHMARK_TEMPLATE(draw, RepriseTree)->Name("W1/tree_draw/reprise")->Apply(sizes);
BENCHMARK_TEMPLATE(draw, TextbookTree)->Name("W1/tree_draw/textbook")->Apply(sizes);
BENCHMARK_TEMPLATE(append, RepriseTree)->Name("W1/tree_append/reprise")->Apply(sizes);
BENCHMARK_TEMPLATE(append, TextbookTree)->Name("W1/tree_append/textbook")->Apply(sizes);
BENCHMARK(weigh_reprise)->Name("W1/weigh/reprise");
BENCHMARK(weigh_textbook)->Name("W1/weigh/textbook");

}  // namespace
