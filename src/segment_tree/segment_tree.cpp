#include <reprise/segment_tree.hpp>

#include "base/divider.hpp"
#include "base/memory.hpp"
#include "base/text.hpp"
#include "segment_tree/segment_kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace reprise {

namespace {

using base::divide_up;
using base::text;
using segment_tree::as_stored;
using segment_tree::kMinOfNone;
using segment_tree::segment_kernels;

constexpr std::size_t kMaxCapacity = std::size_t{1} << 40U;

/// Targets handled together: enough for cache misses to overlap, few enough for the stack and L1.
constexpr std::size_t kBlock = 512;
/// Lines that are changed and then summarized while they are in L1.
constexpr std::size_t kLinesAtOnce = 128;
using Numbers = std::array<std::size_t, kLinesAtOnce>;
/// Number of elements by which memory is prefetched ahead.
constexpr std::size_t kAhead = 16;

/// The numbers from `first` to before `end`, as many of them as `room` holds.
std::span<const std::size_t> fill_numbers(std::size_t first, std::size_t end, Numbers& room) {
  const std::span<std::size_t> used = std::span(room).first(std::min(end - first, room.size()));
  std::iota(used.begin(), used.end(), first);
  return used;
}

/// The largest magnitude of a leaf: the sum of 2^40 such leaves stays below the largest double.
template <class Leaf>
constexpr Leaf kLargest = std::is_same_v<Leaf, double> ? Leaf(0x1p980)
                                                       : std::numeric_limits<Leaf>::max();

/// By how much a target may exceed the total, as a fraction of the total.
constexpr double kRounding = 1e-9;

template <class... Parts>
[[noreturn]] void refuse(const char* call, const Parts&... parts) {
  base::refuse(base::Call{text("SegmentTree::", call)}, parts...);
}

/// Whether a leaf may have this value; false for NaN.
template <class Leaf>
bool storable(Leaf value) noexcept {
  return std::abs(value) <= kLargest<Leaf>;
}

template <class Leaf>
const char* what_is_storable() noexcept {
  return std::is_same_v<Leaf, double> ? "allowed: finite, at most 2^980 in magnitude"
                                      : "allowed: finite";
}

void check_range(const char* call, std::size_t first, std::size_t last, std::size_t capacity) {
  if (!(first <= last && last <= capacity)) {
    refuse(call, "first = ", first, " and last = ", last, "; allowed: first <= last <= ", capacity);
  }
}

void check_sizes(const char* call, const char* a, std::size_t size_a, const char* b,
                 std::size_t size_b) {
  if (size_a != size_b) {
    refuse(call, size_a, " ", a, " and ", size_b, " ", b, "; allowed: as many of both");
  }
}

template <class Leaf>
void check_values(const char* call, std::span<const Leaf> values) {
  bool all = true;  // No early exit, so that compilers use vectors.
  for (const Leaf value : values) {
    all &= storable(value);
  }
  if (!all) {
    const auto wrong = std::find_if_not(values.begin(), values.end(), storable<Leaf>);
    refuse(call, "values[", wrong - values.begin(), "] = ", *wrong, "; ", what_is_storable<Leaf>());
  }
}

template <class Leaf>
void check_value(const char* call, const char* name, Leaf value) {
  if (!storable(value)) {
    refuse(call, name, " = ", value, "; ", what_is_storable<Leaf>());
  }
}

/// Refuses a change that would make a leaf of the range too large. `change` is monotone, so testing
/// the extremes is enough.
template <class Leaf, class Change>
void check_change(const char* call, const SegmentTree<Leaf>& tree, std::size_t first,
                  std::size_t last, const Change& change) {
  if (first == last) {
    return;
  }
  if (!storable(change(tree.min(first, last))) || !storable(change(tree.max(first, last)))) {
    std::size_t leaf = first;
    while (storable(change(tree.leaves()[leaf]))) {
      ++leaf;
    }
    refuse(call, "leaf ", leaf, " would turn from ", tree.leaves()[leaf], " into ",
           change(tree.leaves()[leaf]), "; ", what_is_storable<Leaf>());
  }
}

template <class Leaf>
void check_targets(const SegmentTree<Leaf>& tree, std::span<const double> targets) {
  constexpr const char* kCall = "find_prefix_sum";
  if (tree.min() < Leaf{0}) {
    const std::span<const Leaf> leaves = tree.leaves();
    const auto wrong = std::find_if(leaves.begin(), leaves.end(), [](Leaf x) { return x < 0; });
    refuse(kCall, "leaf ", wrong - leaves.begin(), " is ", *wrong,
           "; allowed: leaves of at least 0");
  }
  const double total = tree.total();
  const double limit = total > 0.0 ? total * (1.0 + kRounding) : -1.0;
  const auto inside = [&](double target) { return target >= 0.0 && target <= limit; };
  const auto wrong = std::find_if_not(targets.begin(), targets.end(), inside);
  if (wrong != targets.end()) {
    refuse(kCall, "targets[", wrong - targets.begin(), "] = ", *wrong, "; ",
           total > 0.0 ? text("allowed: 0 to the total, ", total)
                       : "no leaf is above 0, so no target is allowed");
  }
}

std::size_t checked_capacity(std::size_t capacity) {
  if (!(capacity >= 1 && capacity <= kMaxCapacity)) {
    refuse("SegmentTree", "capacity = ", capacity, "; allowed: 1 to ", kMaxCapacity);
  }
  return capacity;
}

}  // namespace

namespace segment_tree {

/// Leaves, levels and summaries of a `SegmentTree`, which has checked every argument.
///
/// A cache line of leaves lies below each node of the lowest level, eight nodes below each node
/// above it. Sums and extremes are always recomputed from all children (invariant I9): equal leaves
/// give equal bits, whatever the history and the instruction set.
template <class Leaf>
struct SegmentStore {
  using Group = SegmentGroup<Leaf>;
  static constexpr std::size_t kFanout = Group::kNodes;
  /// Below the root lie up to 8^14 lines, which is more than kMaxCapacity leaves.
  static constexpr std::size_t kMaxLevels = 15;

  /// All leaves are 0, and memory is touched lazily.
  explicit SegmentStore(std::size_t leaf_count)
      : capacity(leaf_count), lines(divide_up(capacity, kLine<Leaf>) * kLine<Leaf>) {
    std::array<std::size_t, kMaxLevels> nodes{};
    std::size_t count = 0;
    nodes[0] = divide_up(capacity, kLine<Leaf>);
    for (levels = 1; nodes[levels - 1] > 1; ++levels) {
      nodes[levels] = divide_up(nodes[levels - 1], kFanout);
      count += nodes[levels];
    }
    groups = base::LazyArray<Group>(count + 1);
    dirty = base::LazyArray<std::uint8_t>(count + 1);
    lines.expect_full(0, lines.size());
    groups.expect_full(0, groups.size());
    Group* next = groups.data();
    for (std::size_t l = 0; l < levels; ++l) {
      level[l] = next;
      next += divide_up(nodes[l], kFanout);
      for (std::size_t node = nodes[l]; node % kFanout != 0; ++node) {
        Group& last = level[l][node / kFanout];
        last.min[node % kFanout] = kMinOfNone<Leaf>;
        last.max[node % kFanout] = -kMinOfNone<Leaf>;
      }
    }
  }

  [[nodiscard]] std::span<const Leaf> leaves() const noexcept { return {lines.data(), capacity}; }
  [[nodiscard]] const Group& root() const noexcept { return *level[levels - 1]; }
  [[nodiscard]] std::uint8_t* dirty_of(std::size_t l) noexcept {
    return dirty.data() + (level[l] - groups.data());
  }
  [[nodiscard]] SegmentRange<Leaf> range(std::size_t first, std::size_t last) const noexcept {
    return {leaves(), {level.data(), levels}, first, last};
  }

  /// Sets leaves, sorted or not; of duplicates the last one counts. A batch that is larger than all
  /// before needs memory for its list: throws `std::bad_alloc` without it, with nothing changed.
  void assign(std::span<const std::size_t> leaves, std::span<const Leaf> values) {
    if (scratch.size() < leaves.size()) {
      scratch.resize(leaves.size());
    }
    const SegmentKernels<Leaf>& kernels = segment_kernels<Leaf>();
    for (std::size_t i = 0; i < std::min(leaves.size(), kAhead); ++i) {
      __builtin_prefetch(&lines[leaves[i]]);
    }
    // A line is listed when its bit is set for the first time.
    std::size_t count = 0;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      __builtin_prefetch(&lines[leaves[std::min(i + kAhead, leaves.size() - 1)]]);
      lines[leaves[i]] = as_stored(values[i]);
      const std::size_t line = leaves[i] / kLine<Leaf>;
      std::uint8_t& bits = dirty_of(0)[line / kFanout];
      const unsigned bit = 1U << line % kFanout;
      scratch[count] = line;
      count += (bits & bit) == 0 ? 1U : 0U;
      bits = static_cast<std::uint8_t>(bits | bit);
    }
    kernels.summarize_lines(this->leaves(), {scratch.data(), count}, level[0]);
    for (std::size_t l = 1; l < levels; ++l) {
      // A node is listed by its first child in the list, which clears the bits of the others.
      std::size_t kept = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t node = scratch[i] / kFanout;
        std::uint8_t& children = dirty_of(l - 1)[node];
        scratch[kept] = node;
        kept += children != 0 ? 1U : 0U;
        children = 0;
        dirty_of(l)[node / kFanout] = 1;
      }
      count = kept;
      kernels.summarize_groups(level[l - 1], {scratch.data(), count}, level[l]);
    }
    *dirty_of(levels - 1) = 0;
  }

  /// Calls change(part, number of its first leaf) for consecutive parts of the range, and
  /// recomputes the nodes above.
  template <class Change>
  void write(std::size_t first, std::size_t last, const Change& change) noexcept {
    if (first == last) {
      return;
    }
    const SegmentKernels<Leaf>& kernels = segment_kernels<Leaf>();
    std::size_t begin = first / kLine<Leaf>;
    std::size_t end = divide_up(last, kLine<Leaf>);
    Numbers numbers;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled when used
    for (std::size_t line = begin; line != end;) {
      const std::span<const std::size_t> nodes = fill_numbers(line, end, numbers);
      const std::size_t from = std::max(first, line * kLine<Leaf>);
      line += nodes.size();
      const std::size_t to = std::min(last, line * kLine<Leaf>);
      change(std::span(lines.data() + from, to - from), from);
      kernels.summarize_lines(leaves(), nodes, level[0]);
    }
    for (std::size_t l = 1; l < levels; ++l) {
      begin /= kFanout;
      end = divide_up(end, kFanout);
      for (std::size_t node = begin; node != end;) {
        const std::span<const std::size_t> nodes = fill_numbers(node, end, numbers);
        node += nodes.size();
        kernels.summarize_groups(level[l - 1], nodes, level[l]);
      }
    }
  }

  /// Sets each leaf of the range to leaf * factor + value. Neither is denormal.
  void transform(std::size_t first, std::size_t last, Leaf factor, Leaf value) noexcept {
    write(first, last, [&](std::span<Leaf> part, std::size_t) {
      segment_kernels<Leaf>().transform(part, factor, value);
    });
  }

  /// Finds the leaf on which each target falls. Needs leaves of at least 0, one of them above 0,
  /// and targets of at least 0.
  void find(std::span<const double> targets, std::span<std::size_t> leaves) const noexcept {
    const SegmentKernels<Leaf>& kernels = segment_kernels<Leaf>();
    double rest[kBlock];
    for (std::size_t done = 0; done < targets.size(); done += kBlock) {
      const std::size_t count = std::min(targets.size() - done, kBlock);
      std::copy_n(targets.data() + done, count, rest);
      std::size_t* const nodes = leaves.data() + done;
      std::fill_n(nodes, count, std::size_t{0});
      for (std::size_t l = levels - 1; l-- > 0;) {
        const bool lowest = l == 0;
        kernels.descend(level[l], {rest, count}, nodes,
                        lowest ? static_cast<const void*>(lines.data()) : level[l - 1],
                        lowest ? kLine<Leaf> * sizeof(Leaf) : sizeof(Group));
      }
      kernels.find_leaf(lines.data(), {rest, count}, nodes);
    }
  }

  std::size_t capacity;
  std::size_t levels = 0;       ///< How many levels there are; the highest is the root.
  base::LazyArray<Leaf> lines;  ///< Whole lines; those beyond the capacity stay 0.
  base::LazyArray<Group> groups;
  std::array<Group*, kMaxLevels> level{};  ///< The first group of each level.
  /// Not 0 for groups of which `assign` still has to recompute nodes; in the lowest level these
  /// nodes have a bit each. All are 0 between calls.
  base::LazyArray<std::uint8_t> dirty;
  std::vector<std::size_t> scratch;  ///< Used by `assign`.
};

}  // namespace segment_tree

template <class Leaf>
SegmentTree<Leaf>::SegmentTree(std::size_t capacity)
    : store_(std::make_unique<segment_tree::SegmentStore<Leaf>>(checked_capacity(capacity))) {}
template <class Leaf>
SegmentTree<Leaf>::~SegmentTree() = default;
template <class Leaf>
SegmentTree<Leaf>::SegmentTree(SegmentTree&& other) noexcept = default;
template <class Leaf>
SegmentTree<Leaf>& SegmentTree<Leaf>::operator=(SegmentTree&& other) noexcept = default;

template <class Leaf>
std::size_t SegmentTree<Leaf>::capacity() const noexcept {
  return store_->capacity;
}

template <class Leaf>
std::span<const Leaf> SegmentTree<Leaf>::leaves() const noexcept {
  return store_->leaves();
}

template <class Leaf>
Leaf SegmentTree<Leaf>::leaf(std::size_t leaf) const {
  if (leaf >= capacity()) {
    refuse("leaf", "leaf = ", leaf, "; allowed: below ", capacity());
  }
  return store_->leaves()[leaf];
}

template <class Leaf>
double SegmentTree<Leaf>::total() const noexcept {
  return store_->root().sum[0];
}
template <class Leaf>
Leaf SegmentTree<Leaf>::min() const noexcept {
  return store_->root().min[0];
}
template <class Leaf>
Leaf SegmentTree<Leaf>::max() const noexcept {
  return store_->root().max[0];
}

template <class Leaf>
double SegmentTree<Leaf>::sum(std::size_t first, std::size_t last) const {
  check_range("sum", first, last, capacity());
  return first == last ? 0.0 : segment_kernels<Leaf>().sum(store_->range(first, last));
}
template <class Leaf>
Leaf SegmentTree<Leaf>::min(std::size_t first, std::size_t last) const {
  check_range("min", first, last, capacity());
  return first == last ? kMinOfNone<Leaf> : segment_kernels<Leaf>().min(store_->range(first, last));
}
template <class Leaf>
Leaf SegmentTree<Leaf>::max(std::size_t first, std::size_t last) const {
  check_range("max", first, last, capacity());
  return first == last ? -kMinOfNone<Leaf>
                       : segment_kernels<Leaf>().max(store_->range(first, last));
}

template <class Leaf>
void SegmentTree<Leaf>::assign(std::size_t leaf, Leaf value) {
  assign(std::span(&leaf, 1), std::span<const Leaf>(&value, 1));
}

template <class Leaf>
void SegmentTree<Leaf>::assign(std::span<const std::size_t> leaves, std::span<const Leaf> values) {
  check_sizes("assign", "leaves", leaves.size(), "values", values.size());
  std::size_t highest = 0;
  for (const std::size_t leaf : leaves) {
    highest = std::max(highest, leaf);
  }
  if (highest >= capacity()) {
    const auto wrong = std::find_if(leaves.begin(), leaves.end(),
                                    [&](std::size_t leaf) { return leaf >= capacity(); });
    refuse("assign", "leaves[", wrong - leaves.begin(), "] = ", *wrong, "; allowed: below ",
           capacity());
  }
  check_values("assign", values);
  store_->assign(leaves, values);
}

template <class Leaf>
void SegmentTree<Leaf>::assign_range(std::size_t first, std::span<const Leaf> values) {
  if (!(first <= capacity() && values.size() <= capacity() - first)) {
    refuse("assign_range", "first = ", first, " and ", values.size(),
           " values; allowed: together at most ", capacity());
  }
  check_values("assign_range", values);
  store_->write(first, first + values.size(), [&](std::span<Leaf> part, std::size_t at) {
    const std::span<const Leaf> from = values.subspan(at - first, part.size());
    std::transform(from.begin(), from.end(), part.begin(), as_stored<Leaf>);
  });
}

template <class Leaf>
void SegmentTree<Leaf>::fill(std::size_t first, std::size_t last, Leaf value) {
  check_range("fill", first, last, capacity());
  check_value("fill", "value", value);
  store_->write(first, last, [&](std::span<Leaf> part, std::size_t) {
    std::fill(part.begin(), part.end(), as_stored(value));
  });
}

template <class Leaf>
void SegmentTree<Leaf>::scale(std::size_t first, std::size_t last, Leaf factor) {
  check_range("scale", first, last, capacity());
  check_value("scale", "factor", factor);
  check_change("scale", *this, first, last, [&](Leaf leaf) { return leaf * factor; });
  store_->transform(first, last, as_stored(factor), Leaf{0});
}

template <class Leaf>
void SegmentTree<Leaf>::add(std::size_t first, std::size_t last, Leaf value) {
  check_range("add", first, last, capacity());
  check_value("add", "value", value);
  check_change("add", *this, first, last, [&](Leaf leaf) { return leaf + value; });
  store_->transform(first, last, Leaf{1}, as_stored(value));
}

template <class Leaf>
std::size_t SegmentTree<Leaf>::find_prefix_sum(double target) const {
  std::size_t leaf = 0;
  find_prefix_sum(std::span(&target, 1), std::span(&leaf, 1));
  return leaf;
}

template <class Leaf>
void SegmentTree<Leaf>::find_prefix_sum(std::span<const double> targets,
                                        std::span<std::size_t> leaves) const {
  check_sizes("find_prefix_sum", "targets", targets.size(), "leaves", leaves.size());
  if (!targets.empty()) {
    check_targets(*this, targets);
    store_->find(targets, leaves);
  }
}

template class SegmentTree<float>;
template class SegmentTree<double>;

}  // namespace reprise
