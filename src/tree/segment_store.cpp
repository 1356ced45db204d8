#include "tree/segment_store.hpp"

#include <algorithm>
#include <numeric>

namespace reprise::tree {

namespace {

/// Targets handled together: enough for cache misses to overlap, few enough for the stack and L1.
constexpr std::size_t kBlock = 512;
/// Lines changed and then summarized while they are in L1.
constexpr std::size_t kLinesAtOnce = 128;
/// How many elements ahead of the current one memory is fetched.
constexpr std::size_t kAhead = 16;

constexpr std::size_t divide_up(std::size_t a, std::size_t b) {
  return a / b + (a % b != 0);
}

void prefetch(const void* address) {
#if defined(__GNUC__)
  __builtin_prefetch(address);
#else
  static_cast<void>(address);
#endif
}

template <class Leaf>
void include(Summary<Leaf>& all, const Summary<Leaf>& part) {
  all.sum += part.sum;
  all.min = std::min(all.min, part.min);
  all.max = std::max(all.max, part.max);
}

}  // namespace

template <class Leaf>
SegmentStore<Leaf>::SegmentStore(std::size_t capacity)
    : capacity_(capacity), leaves_(divide_up(capacity, kLine<Leaf>) * kLine<Leaf>) {
  std::size_t groups = 0;
  for (std::size_t nodes = divide_up(capacity, kLine<Leaf>); levels_ == 0 || nodes > 1;) {
    nodes = levels_ == 0 ? nodes : divide_up(nodes, kFanout);
    level_[levels_++] = {groups, nodes};
    groups += divide_up(nodes, kFanout);
  }
  groups_ = base::LazyArray<Group>(groups);
  waiting_ = base::LazyArray<std::uint8_t>(groups);
  for (std::size_t level = 0; level < levels_; ++level) {
    const std::size_t nodes = level_[level].nodes;
    Group& last = groups_of(level)[(nodes - 1) / kFanout];
    for (std::size_t slot = (nodes - 1) % kFanout + 1; slot < kFanout; ++slot) {
      last.min[slot] = Summary<Leaf>().min;
      last.max[slot] = Summary<Leaf>().max;
    }
  }
}

template <class Leaf>
Summary<Leaf> SegmentStore<Leaf>::range(std::size_t first, std::size_t last) const noexcept {
  Summary<Leaf> all;
  // What lies beyond the last leaf adds nothing: a range up to there has no right edge.
  const bool open = last == capacity_;
  // Takes from both edges what is no whole parent, and goes on with the parents.
  const auto climb = [&](std::size_t children, const auto& summary) {
    while (first < last && first % children != 0) {
      include(all, summary(first++));
    }
    while (first < last && last % children != 0 && !open) {
      include(all, summary(--last));
    }
    last = first < last ? divide_up(last, children) : 0;
    first /= children;
  };
  climb(kLine<Leaf>, [&](std::size_t i) {
    return Summary<Leaf>{static_cast<double>(leaves_[i]), leaves_[i], leaves_[i]};
  });
  for (std::size_t level = 0; first < last && level + 1 < levels_; ++level) {
    climb(kFanout, [&](std::size_t i) { return node(level, i); });
  }
  if (first < last) {
    include(all, root());
  }
  return all;
}

template <class Leaf>
void SegmentStore<Leaf>::assign(std::span<const std::size_t> leaves, std::span<const Leaf> values) {
  if (nodes_.size() < leaves.size()) {
    nodes_.resize(leaves.size());
  }
  const SegmentKernels<Leaf>& kernels = segment_kernels<Leaf>();
  for (std::size_t i = 0; i < std::min(leaves.size(), kAhead); ++i) {
    prefetch(&leaves_[leaves[i]]);
  }
  // A line is listed when its bit is set first.
  std::size_t count = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    prefetch(&leaves_[leaves[std::min(i + kAhead, leaves.size() - 1)]]);
    leaves_[leaves[i]] = values[i] + Leaf{0};  // Never -0.
    const std::size_t line = leaves[i] / kLine<Leaf>;
    std::uint8_t& bits = waiting_of(0)[line / kFanout];
    const unsigned bit = 1U << line % kFanout;
    nodes_[count] = line;
    count += (bits & bit) == 0 ? 1U : 0U;
    bits = static_cast<std::uint8_t>(bits | bit);
  }
  kernels.summarize_lines(this->leaves(), {nodes_.data(), count}, groups_of(0));
  for (std::size_t level = 1; level < levels_; ++level) {
    // A node is listed by the first of its children, which clears what the others would find.
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
    kernels.summarize_groups(groups_of(level - 1), {nodes_.data(), count}, groups_of(level));
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
  std::size_t node = first / kLine<Leaf>;
  std::size_t end = divide_up(last, kLine<Leaf>);
  std::size_t nodes[kLinesAtOnce];
  const auto next_nodes = [&] {
    const std::size_t count = std::min(end - node, kLinesAtOnce);
    std::iota(nodes, nodes + count, node);
    node += count;
    return std::span<const std::size_t>(nodes, count);
  };
  const std::size_t first_node = node;
  while (node != end) {
    const std::span<const std::size_t> lines = next_nodes();
    const std::size_t from = std::max(first, lines.front() * kLine<Leaf>);
    const std::size_t to = std::min(last, node * kLine<Leaf>);
    change(std::span(leaves_.data() + from, to - from), from);
    kernels.summarize_lines(leaves(), lines, groups_of(0));
  }
  std::size_t begin = first_node;
  for (std::size_t level = 1; level < levels_; ++level) {
    begin /= kFanout;
    end = divide_up(end, kFanout);
    node = begin;
    while (node != end) {
      kernels.summarize_groups(groups_of(level - 1), next_nodes(), groups_of(level));
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
void SegmentStore<Leaf>::scale(std::size_t first, std::size_t last, Leaf factor) noexcept {
  write(first, last,
        [&](std::span<Leaf> part, std::size_t) { segment_kernels<Leaf>().scale(part, factor); });
}

template <class Leaf>
void SegmentStore<Leaf>::add(std::size_t first, std::size_t last, Leaf value) noexcept {
  write(first, last,
        [&](std::span<Leaf> part, std::size_t) { segment_kernels<Leaf>().add(part, value); });
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
      kernels.descend(groups_of(level), {rest, count}, nodes,
                      lowest ? static_cast<const void*>(leaves_.data()) : groups_of(level - 1),
                      lowest ? kLine<Leaf> * sizeof(Leaf) : sizeof(Group));
    }
    kernels.land(leaves_.data(), {rest, count}, nodes);
  }
}

template class SegmentStore<float>;
template class SegmentStore<double>;

}  // namespace reprise::tree
