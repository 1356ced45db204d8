// The segment tree on its own: batches of 512 points, and changes of ranges, which reprise does at
// once and a lazy tree when it is asked.

#include <reprise/segment_tree.hpp>

#include "measure.hpp"
#include "textbook.hpp"
#include "textbook_lazy.hpp"

namespace {

using bench::kBatch;

class Reprise {
 public:
  explicit Reprise(std::size_t size) : tree_(size) {}

  void assign(std::span<const std::size_t> leaves, std::span<const float> values) {
    tree_.assign(leaves, values);
  }
  void find(std::span<const double> targets, std::span<std::size_t> leaves) {
    tree_.find_prefix_sum(targets, leaves);
  }
  [[nodiscard]] double total() const { return tree_.total(); }
  [[nodiscard]] double sum(std::size_t first, std::size_t last) const {
    return tree_.sum(first, last);
  }
  void scale(std::size_t first, std::size_t last, float factor) {
    tree_.scale(first, last, factor);
  }
  void add(std::size_t first, std::size_t last, float value) { tree_.add(first, last, value); }

 private:
  reprise::SegmentTree<float> tree_;
};

class Textbook {
 public:
  explicit Textbook(std::size_t size) : tree_(size) {}

  void assign(std::span<const std::size_t> leaves, std::span<const float> values) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      tree_.set(leaves[i], static_cast<double>(values[i]));
    }
  }
  void find(std::span<const double> targets, std::span<std::size_t> leaves) {
    std::transform(targets.begin(), targets.end(), leaves.begin(),
                   [&](double target) { return tree_.find(target); });
  }
  [[nodiscard]] double total() const { return tree_.total(); }
  [[nodiscard]] double sum(std::size_t first, std::size_t last) const {
    return tree_.sum(first, last);
  }
  void scale(std::size_t first, std::size_t last, float factor) {
    for (; first < last; ++first) {
      tree_.set(first, tree_.at(first) * static_cast<double>(factor));
    }
  }
  void add(std::size_t first, std::size_t last, float value) {
    for (; first < last; ++first) {
      tree_.set(first, tree_.at(first) + static_cast<double>(value));
    }
  }

 private:
  textbook::SumTree tree_;
};

class Lazy {
 public:
  explicit Lazy(std::size_t size) : tree_(size) {}

  void assign(std::span<const std::size_t> leaves, std::span<const float> values) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      tree_.set(leaves[i], static_cast<double>(values[i]));
    }
  }
  void find(std::span<const double> targets, std::span<std::size_t> leaves) {
    std::transform(targets.begin(), targets.end(), leaves.begin(),
                   [&](double target) { return tree_.find(target); });
  }
  [[nodiscard]] double total() const { return tree_.total(); }
  void scale(std::size_t first, std::size_t last, float factor) {
    tree_.change(first, last, static_cast<double>(factor), 0.0);
  }
  void add(std::size_t first, std::size_t last, float value) {
    tree_.change(first, last, 1.0, static_cast<double>(value));
  }

 private:
  textbook::LazySumTree tree_;
};

/// A tree of random leaves, batches of random leaves made beforehand, and targets.
template <class Tree>
class Subject {
 public:
  explicit Subject(std::size_t size) : tree(size), leaves_(kBatch * kBatches), random_(2) {
    std::vector<std::size_t> run(kBatch);
    for (std::size_t first = 0; first < size; first += kBatch) {
      for (std::size_t i = 0; i < kBatch; ++i) {
        run[i] = first + i;
      }
      tree.assign(run, values.next());
    }
    std::generate(leaves_.begin(), leaves_.end(), [&] { return random_.next() % size; });
  }
  std::span<const std::size_t> batch() {
    at_ = (at_ + 1) % kBatches;
    return std::span(leaves_).subspan(at_ * kBatch, kBatch);
  }
  /// One from each of 512 equal parts of the total.
  std::span<const double> targets() {
    const double part = tree.total() / static_cast<double>(kBatch);
    for (std::size_t i = 0; i < kBatch; ++i) {
      targets_[i] = (static_cast<double>(i) + random_.uniform()) * part;
    }
    return targets_;
  }

  Tree tree;
  bench::Priorities values;

 private:
  static constexpr std::size_t kBatches = 512;
  std::vector<std::size_t> leaves_;
  bench::Random random_;
  std::array<double, kBatch> targets_{};
  std::size_t at_ = 0;
};

template <class Tree>
void assign(benchmark::State& state) {
  auto& subject = bench::prepared<Subject<Tree>>(bench::size_of(state));
  for (auto _ : state) {
    subject.tree.assign(subject.batch(), subject.values.next());
    benchmark::ClobberMemory();
  }
  bench::per_item(state, kBatch);
}

template <class Tree>
void find(benchmark::State& state) {
  auto& subject = bench::prepared<Subject<Tree>>(bench::size_of(state));
  std::vector<std::size_t> found(kBatch);
  for (auto _ : state) {
    subject.tree.find(subject.targets(), found);
    benchmark::DoNotOptimize(found.data());
    benchmark::ClobberMemory();
  }
  bench::per_item(state, kBatch);
}

/// Sums between neighbours of a random batch.
template <class Tree>
void sum(benchmark::State& state) {
  auto& subject = bench::prepared<Subject<Tree>>(bench::size_of(state));
  for (auto _ : state) {
    const std::span<const std::size_t> ends = subject.batch();
    double all = 0.0;
    for (std::size_t i = 0; i < kBatch; ++i) {
      const auto [first, last] = std::minmax(ends[i], ends[(i + 1) % kBatch]);
      all += subject.tree.sum(first, last);
    }
    benchmark::DoNotOptimize(all);
  }
  bench::per_item(state, kBatch);
}

constexpr std::size_t kLeaves = std::size_t{1} << 20U;

/// Changes 2^argument of 2^20 leaves, and back the next time, by `change(tree, first, last, back)`.
template <class Tree, class Change>
void change_range(benchmark::State& state, const Change& change) {
  auto& subject = bench::prepared<Subject<Tree>>(kLeaves);
  const std::size_t size = bench::size_of(state);
  std::size_t at = 0;
  bool back = false;
  std::span<const std::size_t> starts = subject.batch();
  for (auto _ : state) {
    const std::size_t first = starts[at % kBatch] % (kLeaves - size + 1);
    change(subject.tree, first, first + size, back);
    benchmark::ClobberMemory();
    at += back ? 1U : 0U;
    back = !back;
  }
  bench::per_item(state, size);
}

template <class Tree>
void scale(benchmark::State& state) {
  change_range<Tree>(state, [](Tree& tree, std::size_t first, std::size_t last, bool back) {
    tree.scale(first, last, back ? 2.0F : 0.5F);
  });
}

template <class Tree>
void add(benchmark::State& state) {
  change_range<Tree>(state, [](Tree& tree, std::size_t first, std::size_t last, bool back) {
    tree.add(first, last, back ? -0.5F : 0.5F);
  });
}

/// All leaves scaled, then 512 assigned and 512 found: a decay of all priorities with every batch.
template <class Tree>
void decay_cycle(benchmark::State& state) {
  const std::size_t size = bench::size_of(state);
  auto& subject = bench::prepared<Subject<Tree>>(size);
  std::vector<std::size_t> found(kBatch);
  bool back = false;
  for (auto _ : state) {
    subject.tree.scale(0, size, back ? 2.0F : 0.5F);
    subject.tree.assign(subject.batch(), subject.values.next());
    subject.tree.find(subject.targets(), found);
    benchmark::DoNotOptimize(found.data());
    benchmark::ClobberMemory();
    back = !back;
  }
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(16)->Arg(20)->Arg(23);
}
void ranges(benchmark::internal::Benchmark* benchmark) {
  benchmark->DenseRange(4, 20, 2);
}

BENCHMARK_TEMPLATE(assign, Reprise)->Name("segment_tree/assign512/reprise")->Apply(sizes);
BENCHMARK_TEMPLATE(assign, Textbook)->Name("segment_tree/assign512/textbook")->Apply(sizes);
BENCHMARK_TEMPLATE(find, Reprise)->Name("segment_tree/find512/reprise")->Apply(sizes);
BENCHMARK_TEMPLATE(find, Textbook)->Name("segment_tree/find512/textbook")->Apply(sizes);
BENCHMARK_TEMPLATE(sum, Reprise)->Name("segment_tree/sum512/reprise")->Apply(sizes);
BENCHMARK_TEMPLATE(sum, Textbook)->Name("segment_tree/sum512/textbook")->Apply(sizes);
BENCHMARK_TEMPLATE(scale, Reprise)->Name("segment_tree/scale/reprise")->Apply(ranges);
BENCHMARK_TEMPLATE(scale, Textbook)->Name("segment_tree/scale/textbook")->Apply(ranges);
BENCHMARK_TEMPLATE(scale, Lazy)->Name("segment_tree/scale/textbook_lazy")->Apply(ranges);
BENCHMARK_TEMPLATE(add, Reprise)->Name("segment_tree/add/reprise")->Apply(ranges);
BENCHMARK_TEMPLATE(add, Textbook)->Name("segment_tree/add/textbook")->Apply(ranges);
BENCHMARK_TEMPLATE(add, Lazy)->Name("segment_tree/add/textbook_lazy")->Apply(ranges);
BENCHMARK_TEMPLATE(decay_cycle, Reprise)->Name("segment_tree/decay_cycle/reprise")->Apply(sizes);
BENCHMARK_TEMPLATE(decay_cycle, Lazy)->Name("segment_tree/decay_cycle/textbook_lazy")->Apply(sizes);

}  // namespace
