// Measures trees alone, without locks. W1's trees go from raw priorities to importance weights:
// batches of 512 updates, draws and appends. The public segment tree has batches of 512 points, and
// changes of ranges, which reprise makes at once and a lazy tree when a node is read.

#include <reprise/segment_tree.hpp>

#include "measure.hpp"
#include "textbook_items.hpp"
#include "textbook_lazy.hpp"
#include "tree/weighing.hpp"
#include "tree/weight_tree.hpp"

#include <array>
#include <cmath>
#include <numeric>

namespace {

using bench::kAlpha;
using bench::kBatch;
using bench::kEpsilon;

/// A tree with random leaves, and batches of random leaves that were chosen beforehand.
template <class Tree>
class Subject {
 public:
  using Leaf = typename Tree::Leaf;

  explicit Subject(std::size_t size)
      : tree(size), size_(size), leaves_(kBatch * Tree::kBatches), random_(2) {
    randomize();
    std::ranges::generate(leaves_, [&] { return static_cast<Leaf>(random_.next() % size); });
  }
  /// Begins again with the first batch, so that each tree of W1 gets the same batches in every run.
  void restart() requires(Tree::kSameBatches) {
    random_ = bench::Random(2);
    at_ = 0;
  }
  void randomize() {
    std::vector<Leaf> run(kBatch);
    for (std::size_t first = 0; first < size_; first += kBatch) {
      std::iota(run.begin(), run.end(), static_cast<Leaf>(first));
      tree.assign(run, values_.next());
    }
  }
  std::span<const Leaf> batch() {
    at_ = (at_ + 1) % Tree::kBatches;
    return std::span(leaves_).subspan(at_ * kBatch, kBatch);
  }
  void assign() {
    tree.assign(batch(), values_.next());
    benchmark::ClobberMemory();
  }
  /// Draws a leaf of one of W1's trees from each of 512 equal parts of the total, with its
  /// importance weight.
  void draw() {
    tree.draw(random_, found_, weights_);
    benchmark::DoNotOptimize(found_.data());
    benchmark::DoNotOptimize(weights_.data());
    benchmark::ClobberMemory();
  }
  /// Finds the leaf at a random place in each of 512 equal parts of a segment tree's total.
  void find() {
    const double part = tree.total() / static_cast<double>(kBatch);
    for (std::size_t i = 0; i < kBatch; ++i) {
      targets_[i] = (static_cast<double>(i) + random_.uniform()) * part;
    }
    tree.find(targets_, found_);
    benchmark::DoNotOptimize(found_.data());
    benchmark::ClobberMemory();
  }
  /// Sums the ranges between leaves that follow each other in a random batch.
  void sum() {
    const std::span<const Leaf> ends = batch();
    double all = 0.0;
    for (std::size_t i = 0; i < kBatch; ++i) {
      const auto [first, last] = std::minmax(ends[i], ends[(i + 1) % kBatch]);
      all += tree.sum(first, last);
    }
    benchmark::DoNotOptimize(all);
  }
  /// Scales all leaves, then assigns 512 leaves and finds 512, like a learner that decays all
  /// priorities with every batch. Scales by 0.5 and 2 in turn, so that weights keep their size.
  void decay() {
    tree.scale(0, size_, undo_ ? 2.0F : 0.5F);
    undo_ = !undo_;
    assign();
    find();
  }

  Tree tree;

 private:
  std::size_t size_;
  bench::Priorities values_;
  std::vector<Leaf> leaves_;
  bench::Random random_;
  std::size_t at_ = 0;
  bool undo_ = false;
  std::vector<Leaf> found_ = std::vector<Leaf>(kBatch);
  std::vector<float> weights_ = std::vector<float>(kBatch);
  std::array<double, kBatch> targets_{};
};

/// The proportional selector's tree.
class WeightTree {
 public:
  using Leaf = std::uint32_t;
  static constexpr std::size_t kBatches = 2048;
  static constexpr bool kSameBatches = true;

  explicit WeightTree(std::size_t size) : tree_(size) {}

  void assign(std::span<const Leaf> items, std::span<const float> priorities) {
    reprise::tree::weigh(priorities, kAlpha, kEpsilon, weights_);
    tree_.assign(items, weights_);
  }
  /// Sets a run of items to the highest weight in the tree, which is what new items get.
  void append(std::size_t first, std::size_t count) {
    const std::span<float> run = std::span(weights_).first(count);
    std::fill(run.begin(), run.end(), tree_.max());
    tree_.assign_run(static_cast<std::uint32_t>(first), run);
  }
  void draw(bench::Random& random, std::span<Leaf> items, std::span<float> weights) {
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

struct TextbookItems : bench::TextbookItems {
  using Leaf = std::uint32_t;
  static constexpr std::size_t kBatches = 2048;
  static constexpr bool kSameBatches = true;

  using bench::TextbookItems::TextbookItems;

  void assign(std::span<const Leaf> items, std::span<const float> priorities) {
    update(items, priorities);
  }
  void append(std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      set(first + i, 1.0F);
    }
  }
};

struct SegmentTree : reprise::SegmentTree<float> {
  using Leaf = std::size_t;
  static constexpr std::size_t kBatches = 512;
  static constexpr bool kSameBatches = false;

  explicit SegmentTree(std::size_t size) : reprise::SegmentTree<float>(size) {}

  void find(std::span<const double> targets, std::span<Leaf> leaves) {
    find_prefix_sum(targets, leaves);
  }
};

/// A tree of the textbook, which is updated leaf by leaf.
template <class Tree>
struct OneByOne : Tree {
  using Leaf = std::size_t;
  static constexpr std::size_t kBatches = 512;
  static constexpr bool kSameBatches = false;

  explicit OneByOne(std::size_t size) : Tree(size) {}

  void assign(std::span<const Leaf> leaves, std::span<const float> values) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      this->set(leaves[i], static_cast<double>(values[i]));
    }
  }
  void find(std::span<const double> targets, std::span<Leaf> leaves) {
    std::transform(targets.begin(), targets.end(), leaves.begin(),
                   [&](double target) { return Tree::find(target); });
  }
};

struct Textbook : OneByOne<textbook::SumTree> {
  using OneByOne::OneByOne;

  void scale(std::size_t first, std::size_t last, float factor) {
    for (; first < last; ++first) {
      set(first, at(first) * static_cast<double>(factor));
    }
  }
  void add(std::size_t first, std::size_t last, float value) {
    for (; first < last; ++first) {
      set(first, at(first) + static_cast<double>(value));
    }
  }
};

struct Lazy : OneByOne<textbook::LazySumTree> {
  using OneByOne::OneByOne;

  void scale(std::size_t first, std::size_t last, float factor) {
    change(first, last, static_cast<double>(factor), 0.0);
  }
  void add(std::size_t first, std::size_t last, float value) {
    change(first, last, 1.0, static_cast<double>(value));
  }
};

/// Measures appends of 512 new items. After each pass over the tree, all priorities become random
/// again: otherwise no parent would change, and a tree may skip such parents.
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
    std::ranges::transform(priorities.next(), to.begin(), [](float priority) {
      return std::pow(static_cast<double>(priority) + static_cast<double>(kEpsilon),
                      static_cast<double>(kAlpha));
    });
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  bench::per_item(state, kBatch);
}

/// Adds a benchmark of changes of 2^argument of 2^20 leaves. Every second iteration undoes the
/// change before it.
template <class Tree, class Change>
void add_ranges(const std::string& name, const Change& change) {
  constexpr std::size_t kLeaves = std::size_t{1} << 20U;
  const auto run = [change](benchmark::State& state) {
    auto& subject = bench::prepared<Subject<Tree>>(kLeaves);
    const std::size_t size = bench::size_of(state);
    const std::span<const std::size_t> starts = subject.batch();
    std::size_t at = 0;
    bool undo = false;
    for (auto _ : state) {
      const std::size_t first = starts[at % kBatch] % (kLeaves - size + 1);
      change(subject.tree, first, first + size, undo);
      benchmark::ClobberMemory();
      if (undo) {
        ++at;
      }
      undo = !undo;
    }
    bench::per_item(state, size);
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->DenseRange(4, 20, 2);
}

template <class Tree>
void add_weights(const std::string& who) {
  const auto sizes = {16, 20, 23};
  using Of = Subject<Tree>;
  bench::add_sizes<Of>("W1/tree_update/" + who, sizes, kBatch, [](Of& it) { it.assign(); });
  bench::add_sizes<Of>("W1/tree_draw/" + who, sizes, kBatch, [](Of& it) { it.draw(); });
  benchmark::RegisterBenchmark(("W1/tree_append/" + who).c_str(), append<Tree>)
      ->Arg(16)
      ->Arg(20)
      ->Arg(23);
}

template <class Tree>
void add_changes(const std::string& who) {
  add_ranges<Tree>("segment_tree/scale/" + who, [](Tree& tree, auto first, auto last, bool undo) {
    tree.scale(first, last, undo ? 2.0F : 0.5F);
  });
  add_ranges<Tree>("segment_tree/add/" + who, [](Tree& tree, auto first, auto last, bool undo) {
    tree.add(first, last, undo ? -0.5F : 0.5F);
  });
}

template <class Tree>
void add_points(const std::string& who) {
  const auto sizes = {16, 20, 23};
  const std::string tree = "segment_tree/";
  using Of = Subject<Tree>;
  bench::add_sizes<Of>(tree + "assign512/" + who, sizes, kBatch, [](Of& it) { it.assign(); });
  bench::add_sizes<Of>(tree + "find512/" + who, sizes, kBatch, [](Of& it) { it.find(); });
  bench::add_sizes<Of>(tree + "sum512/" + who, sizes, kBatch, [](Of& it) { it.sum(); });
}

template <class Tree>
void add_decay(const std::string& who) {
  bench::add_sizes<Subject<Tree>>("segment_tree/decay_cycle/" + who, {16, 20, 23}, kBatch,
                                  [](Subject<Tree>& subject) { subject.decay(); });
}

[[maybe_unused]] const bool added = [] {
  add_weights<WeightTree>("reprise");
  add_weights<TextbookItems>("textbook");
  benchmark::RegisterBenchmark("W1/weigh/reprise", weigh_reprise);
  benchmark::RegisterBenchmark("W1/weigh/textbook", weigh_textbook);
  add_points<SegmentTree>("reprise");
  add_points<Textbook>("textbook");
  add_changes<SegmentTree>("reprise");
  add_changes<Textbook>("textbook");
  add_changes<Lazy>("textbook_lazy");
  add_decay<SegmentTree>("reprise");
  add_decay<Lazy>("textbook_lazy");
  return true;
}();

}  // namespace
