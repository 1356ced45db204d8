#include <reprise/segment_tree.hpp>

#include "base/text.hpp"
#include "segment_tree/segment_store.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>

namespace reprise {

namespace {

using base::text;

/// The sum of 2^40 such leaves stays below the largest double.
template <class Leaf>
constexpr Leaf kLargest = std::is_same_v<Leaf, double> ? Leaf(0x1p980)
                                                       : std::numeric_limits<Leaf>::max();

/// Bound of target - total, as a fraction of the total.
constexpr double kRounding = 1e-9;

template <class... Parts>
[[noreturn]] void refuse(const char* call, const Parts&... parts) {
  throw std::invalid_argument(text("SegmentTree::", call, ": ", parts...));
}

/// False for NaN, too.
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
void check_change(const char* call, const segment_tree::SegmentStore<Leaf>& store,
                  std::size_t first, std::size_t last, const Change& change) {
  if (first == last) {
    return;
  }
  if (!storable(change(store.min(first, last))) || !storable(change(store.max(first, last)))) {
    std::size_t leaf = first;
    while (storable(change(store.leaves()[leaf]))) {
      ++leaf;
    }
    refuse(call, "leaf ", leaf, " would turn from ", store.leaves()[leaf], " into ",
           change(store.leaves()[leaf]), "; ", what_is_storable<Leaf>());
  }
}

template <class Leaf>
void check_targets(const segment_tree::SegmentStore<Leaf>& store, std::span<const double> targets) {
  constexpr const char* kCall = "find_prefix_sum";
  if (store.min() < Leaf{0}) {
    const std::span<const Leaf> leaves = store.leaves();
    const auto wrong = std::find_if(leaves.begin(), leaves.end(), [](Leaf x) { return x < 0; });
    refuse(kCall, "leaf ", wrong - leaves.begin(), " is ", *wrong,
           "; allowed: leaves of at least 0");
  }
  const double total = store.total();
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
  constexpr std::size_t kMost = segment_tree::SegmentStore<float>::kMaxCapacity;
  if (!(capacity >= 1 && capacity <= kMost)) {
    refuse("SegmentTree", "capacity = ", capacity, "; allowed: 1 to ", kMost);
  }
  return capacity;
}

}  // namespace

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
  return store_->leaves().size();
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
  return store_->total();
}
template <class Leaf>
Leaf SegmentTree<Leaf>::min() const noexcept {
  return store_->min();
}
template <class Leaf>
Leaf SegmentTree<Leaf>::max() const noexcept {
  return store_->max();
}

template <class Leaf>
double SegmentTree<Leaf>::sum(std::size_t first, std::size_t last) const {
  check_range("sum", first, last, capacity());
  return store_->sum(first, last);
}
template <class Leaf>
Leaf SegmentTree<Leaf>::min(std::size_t first, std::size_t last) const {
  check_range("min", first, last, capacity());
  return store_->min(first, last);
}
template <class Leaf>
Leaf SegmentTree<Leaf>::max(std::size_t first, std::size_t last) const {
  check_range("max", first, last, capacity());
  return store_->max(first, last);
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
  store_->assign_range(first, values);
}

template <class Leaf>
void SegmentTree<Leaf>::fill(std::size_t first, std::size_t last, Leaf value) {
  check_range("fill", first, last, capacity());
  check_value("fill", "value", value);
  store_->fill(first, last, value);
}

template <class Leaf>
void SegmentTree<Leaf>::scale(std::size_t first, std::size_t last, Leaf factor) {
  check_range("scale", first, last, capacity());
  check_value("scale", "factor", factor);
  check_change("scale", *store_, first, last, [&](Leaf leaf) { return leaf * factor; });
  store_->transform(first, last, factor, Leaf{0});
}

template <class Leaf>
void SegmentTree<Leaf>::add(std::size_t first, std::size_t last, Leaf value) {
  check_range("add", first, last, capacity());
  check_value("add", "value", value);
  check_change("add", *store_, first, last, [&](Leaf leaf) { return leaf + value; });
  store_->transform(first, last, Leaf{1}, value + Leaf{0});
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
    check_targets(*store_, targets);
    store_->find(targets, leaves);
  }
}

template class SegmentTree<float>;
template class SegmentTree<double>;

}  // namespace reprise
