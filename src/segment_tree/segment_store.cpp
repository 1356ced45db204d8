#include "segment_tree/segment_store.hpp"

#include "base/divider.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace reprise::segment_tree {

namespace {

/// Targets handled together: enough for cache misses to overlap, few enough for the stack and L1.
constexpr std::size_t kBlock = 512;
/// Lines that are changed and then summarized while they are in L1.
constexpr std::size_t kLinesAtOnce = 128;
using Numbers = std::array<std::size_t, kLinesAtOnce>;
/// Number of elements by which memory is prefetched ahead.
constexpr std::size_t kAhead = 16;

using base::divide_up;

/// The numbers from `first` to before `end`, as many as the room holds.
std::span<const std::size_t> numbered(std::size_t first, std::size_t end, Numbers& room) {
  const std::span<std::size_t> used = std::span(room).first(std::min(end - first, room.size()));
  std::iota(used.begin(), used.end(), first);
  return used;
}

}  // namespace

template <class Leaf>
SegmentStore<Leaf>::SegmentStore(std::size_t capacity)
    : capacity_(capacity), leaves_(divide_up(capacity, kLine<Leaf>) * kLine<Leaf>) {
  std::array<std::size_t, kMaxLevels> nodes{};
  std::size_t groups = 0;
  nodes[0] = divide_up(capacity, kLine<Leaf>);
  for (levels_ = 1; nodes[levels_ - 1] > 1; ++levels_) {
    nodes[levels_] = divide_up(nodes[levels_ - 1], kFanout);
    groups += nodes[levels_];
  }
  groups_ = base::LazyArray<Group>(groups + 1);
  waiting_ = base::LazyArray<std::uint8_t>(groups + 1);
  leaves_.expect_full(0, leaves_.size());
  groups_.expect_full(0, groups_.size());
  Group* next = groups_.data();
  for (std::size_t level = 0; level < levels_; ++level) {
    level_[level] = next;
    next += divide_up(nodes[level], kFanout);
    for (std::size_t node = nodes[level]; node % kFanout != 0; ++node) {
      Group& last = level_[level][node / kFanout];
      last.min[node % kFanout] = kMinOfNone<Leaf>;
      last.max[node % kFanout] = -kMinOfNone<Leaf>;
    }
  }
}

template <class Leaf>
void SegmentStore<Leaf>::assign(std::span<const std::size_t> leaves, std::span<const Leaf> values) {
  if (nodes_.size() < leaves.size()) {
    nodes_.resize(leaves.size());
  }
  const SegmentKernels<Leaf>& kernels = segment_kernels<Leaf>();
  for (std::size_t i = 0; i < std::min(leaves.size(), kAhead); ++i) {
    __builtin_prefetch(&leaves_[leaves[i]]);
  }
  // A line is listed when its bit is set for the first time.
  std::size_t count = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    __builtin_prefetch(&leaves_[leaves[std::min(i + kAhead, leaves.size() - 1)]]);
    leaves_[leaves[i]] = values[i] + Leaf{0};  // Never -0.
    const std::size_t line = leaves[i] / kLine<Leaf>;
    std::uint8_t& bits = waiting_of(0)[line / kFanout];
    const unsigned bit = 1U << line % kFanout;
    nodes_[count] = line;
    count += (bits & bit) == 0 ? 1U : 0U;
    bits = static_cast<std::uint8_t>(bits | bit);
  }
  kernels.summarize_lines(this->leaves(), {nodes_.data(), count}, level_[0]);
  for (std::size_t level = 1; level < levels_; ++level) {
    // A node is listed by its first child in the list, which clears the bits of the others.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t node = nodes_[i] / kFanout;
      std::uint8_t& children = waiting_of(level - 1)[node];
      nodes_[kept] = node;
      kept += children != 0 ? 1U : 0U;
      children = 0;
      waiting_of(level)[node / kFanout] = 1;
    }
    count = kept;
    kernels.summarize_groups(level_[level - 1], {nodes_.data(), count}, level_[level]);
  }
  *waiting_of(levels_ - 1) = 0;
}

template <class Leaf>
template <class Change>
void SegmentStore<Leaf>::write(std::size_t first, std::size_t last, const Change& change) noexcept {
  if (first == last) {
    return;
  }
  const SegmentKernels<Leaf>& kernels = segment_kernels<Leaf>();
  std::size_t begin = first / kLine<Leaf>;
  std::size_t end = divide_up(last, kLine<Leaf>);
  Numbers numbers;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled when used
  for (std::size_t line = begin; line != end;) {
    const std::span<const std::size_t> lines = numbered(line, end, numbers);
    const std::size_t from = std::max(first, line * kLine<Leaf>);
    line += lines.size();
    const std::size_t to = std::min(last, line * kLine<Leaf>);
    change(std::span(leaves_.data() + from, to - from), from);
    kernels.summarize_lines(leaves(), lines, level_[0]);
  }
  for (std::size_t level = 1; level < levels_; ++level) {
    begin /= kFanout;
    end = divide_up(end, kFanout);
    for (std::size_t node = begin; node != end;) {
      const std::span<const std::size_t> nodes = numbered(node, end, numbers);
      node += nodes.size();
      kernels.summarize_groups(level_[level - 1], nodes, level_[level]);
    }
  }
}

template <class Leaf>
void SegmentStore<Leaf>::assign_range(std::size_t first, std::span<const Leaf> values) noexcept {
  write(first, first + values.size(), [&](std::span<Leaf> part, std::size_t at) {
    const std::span<const Leaf> from = values.subspan(at - first, part.size());
    std::transform(from.begin(), from.end(), part.begin(),
                   [](Leaf value) { return value + Leaf{0}; });
  });
}

template <class Leaf>
void SegmentStore<Leaf>::fill(std::size_t first, std::size_t last, Leaf value) noexcept {
  write(first, last, [&](std::span<Leaf> part, std::size_t) {
    std::fill(part.begin(), part.end(), value + Leaf{0});
  });
}

template <class Leaf>
void SegmentStore<Leaf>::transform(std::size_t first, std::size_t last, Leaf factor,
                                   Leaf value) noexcept {
  write(first, last, [&](std::span<Leaf> part, std::size_t) {
    segment_kernels<Leaf>().transform(part, factor, value);
  });
}

template <class Leaf>
void SegmentStore<Leaf>::find(std::span<const double> targets,
                              std::span<std::size_t> leaves) const noexcept {
  const SegmentKernels<Leaf>& kernels = segment_kernels<Leaf>();
  double rest[kBlock];
  for (std::size_t done = 0; done < targets.size(); done += kBlock) {
    const std::size_t count = std::min(targets.size() - done, kBlock);
    std::copy_n(targets.data() + done, count, rest);
    std::size_t* const nodes = leaves.data() + done;
    std::fill_n(nodes, count, std::size_t{0});
    for (std::size_t level = levels_ - 1; level-- > 0;) {
      const bool lowest = level == 0;
      kernels.descend(level_[level], {rest, count}, nodes,
                      lowest ? static_cast<const void*>(leaves_.data()) : level_[level - 1],
                      lowest ? kLine<Leaf> * sizeof(Leaf) : sizeof(Group));
    }
    kernels.land(leaves_.data(), {rest, count}, nodes);
  }
}

template class SegmentStore<float>;
template class SegmentStore<double>;

}  // namespace reprise::segment_tree
