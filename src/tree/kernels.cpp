#include "tree/kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tree/kernels.cpp"
#include "tree/simd.hpp"
// Included after the choice of targets.
#include "tree/prefix-inl.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace reprise::tree::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Nodes are recomputed several at a time, as many as a vector has doubles, so that every shuffle
// works for all nodes of the block.

/// Number of elements by which memory is prefetched ahead.
constexpr std::size_t kAhead = 40;

/// Highway's tags for the vectors of a block of at most kNodes nodes. A node by itself is read one
/// number at a time: its child was written just now, and a wider load would wait until that store
/// has left the store buffer.
template <std::size_t kNodes>
struct Block {
  using Doubles = hn::CappedTag<double, kNodes>;
  using Bits = hn::CappedTag<std::uint32_t, kNodes == 1 ? 1 : 2 * kNodes>;
  static constexpr std::size_t kLanes = hn::MaxLanes(Doubles());
};

/// Like `fold`, where the order of the elements of a row does not matter.
template <std::size_t kRows, class D, class Combine>
HWY_INLINE hn::Vec<D> fold_in_any_order(D d, Combine combine, hn::Vec<D>* rows) {
  if constexpr (kRows == 8 && hn::MaxLanes(D()) == 8 && sizeof(hn::TFromD<D>) == 4) {
    // AVX2. In a vector from `two`, each quarter has one partial result for each of two rows.
    const hn::RepartitionToWide<D> wide;
    const auto halves = [&](std::size_t i) HWY_ATTR {
      return combine(ConcatLowerLower(d, rows[i + 4], rows[i]),
                     ConcatUpperUpper(d, rows[i + 4], rows[i]));
    };
    const auto two = [&](std::size_t i) HWY_ATTR {
      const auto a = halves(i);
      const auto b = halves(i + 1);
      return hn::BitCast(wide, combine(InterleaveLower(d, a, b), InterleaveUpper(d, a, b)));
    };
    const auto low = two(0);
    const auto high = two(2);
    return combine(hn::BitCast(d, InterleaveLower(wide, low, high)),
                   hn::BitCast(d, InterleaveUpper(wide, low, high)));
  } else {
    return fold<kRows>(d, combine, rows);
  }
}

/// Exchanges element j of row i with element i of row j. There are as many rows as lanes.
template <class D>
HWY_INLINE void transpose(D d, hn::Vec<D>* rows) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  if constexpr (kLanes == 4) {
    const auto a = InterleaveLower(d, rows[0], rows[1]);
    const auto b = InterleaveUpper(d, rows[0], rows[1]);
    const auto e = InterleaveLower(d, rows[2], rows[3]);
    const auto f = InterleaveUpper(d, rows[2], rows[3]);
    rows[0] = ConcatLowerLower(d, e, a);
    rows[1] = ConcatLowerLower(d, f, b);
    rows[2] = ConcatUpperUpper(d, e, a);
    rows[3] = ConcatUpperUpper(d, f, b);
  } else if constexpr (kLanes > 1) {
    // Each round exchanges one bit of the row's number for one of the lane's.
    for (std::size_t step = 1; step < kLanes; step *= 2) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        if ((i & step) == 0) {
          const auto low = rows[i];
          const auto high = rows[i + step];
          rows[i] = ConcatEven(d, high, low);
          rows[i + step] = ConcatOdd(d, high, low);
        }
      }
    }
  }
}

/// Makes each row the sum of all rows up to it, by Sklansky's steps (1960): in each block of
/// 2 * kStep rows, the last row of the lower half is added to all rows of the upper half.
template <std::size_t kRows, std::size_t kStep = 1, class V>
HWY_INLINE void add_up(V* rows) {
  if constexpr (kStep < kRows) {  // It is recursive, because gcc unrolls no loop over the steps.
    for (std::size_t c = 0; c < kRows; ++c) {
      if ((c & kStep) != 0) {
        rows[c] = hn::Add(rows[c], rows[(c & ~(2 * kStep - 1)) + kStep - 1]);
      }
    }
    add_up<kRows, 2 * kStep>(rows);
  }
}

// Minimum and maximum are computed together, as minima of whole numbers: the bits of weights, which
// are at least 0, are ordered as the weights are. For the minimum, 1 is subtracted from the bits,
// so that those of 0 ("none") become the largest number. For the maximum, the bits are
// complemented, so that those of the largest weight become the least number.

template <class U>
HWY_INLINE hn::Vec<U> load_bits(U u, const float* from) {
  return hn::BitCast(u, hn::Load(hn::RebindToFloat<U>(), from));
}

/// Folds rows of these numbers, and stores the least number of each row.
template <std::size_t kRows, class U>
HWY_INLINE void store_bounds(U u, hn::Vec<U>* rows, std::uint32_t* to) {
  if constexpr (hn::MaxLanes(U()) == 1) {
    for (std::size_t i = 0; i < kRows; ++i) {
      hn::Store(rows[i], u, to + i);
    }
  } else {
    hn::Store(fold_in_any_order<kRows>(u, Minimum(), rows), u, to);
  }
}

/// The children of a block of nodes of the lowest level: leaves.
class LeafChildren {
 public:
  HWY_INLINE LeafChildren(const float* all, const std::uint32_t* node) : all_(all), node_(node) {}

  /// Lane j is the sum of node j.
  template <class D>
  HWY_INLINE hn::Vec<D> sums(D d) const {
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    constexpr std::size_t kParts = kLeavesPerNode / kLanes;
    hn::Vec<D> parts[kParts];
    for (std::size_t part = 0; part < kParts; ++part) {
      hn::Vec<D> rows[kLanes];
      for (std::size_t j = 0; j < kLanes; ++j) {
        rows[j] = load_as(d, leaves(j) + part * kLanes);
      }
      parts[part] = fold<kLanes>(d, Plus(), rows);
    }
    for (std::size_t left = kParts / 2; left > 0; left /= 2) {
      for (std::size_t i = 0; i < left; ++i) {
        parts[i] = hn::Add(parts[2 * i], parts[2 * i + 1]);
      }
    }
    return parts[0];
  }

  /// Writes the bits described above: to[2 * j] for the minimum of node j, and to[2 * j + 1] for
  /// its maximum.
  template <std::size_t kNodes, class U>
  HWY_INLINE void bounds(U u, std::uint32_t* to) const {
    hn::Vec<U> rows[2 * kNodes];
    for (std::size_t j = 0; j < kNodes; ++j) {
      auto maximum = load_bits(u, leaves(j));
      auto minimum = hn::Sub(maximum, hn::Set(u, 1));
      for (std::size_t i = hn::MaxLanes(U()); i < kLeavesPerNode; i += hn::MaxLanes(U())) {
        const auto v = load_bits(u, leaves(j) + i);
        minimum = hn::Min(minimum, hn::Sub(v, hn::Set(u, 1)));
        maximum = hn::Max(maximum, v);
      }
      rows[2 * j] = minimum;
      rows[2 * j + 1] = hn::Not(maximum);
    }
    store_bounds<2 * kNodes>(u, rows, to);
  }

 private:
  HWY_INLINE const float* leaves(std::size_t j) const { return all_ + node_[j] * kLeavesPerNode; }

  const float* all_;
  const std::uint32_t* node_;
};

/// The children of a block of nodes of a higher level: groups. `sums` also writes the prefix sums
/// within these groups.
class GroupChildren {
 public:
  HWY_INLINE GroupChildren(const Group* all, Prefixes* prefixes, const std::uint32_t* node)
      : all_(all), prefixes_(prefixes), node_(node) {}

  template <class D>
  HWY_INLINE hn::Vec<D> sums(D d) const {
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    hn::Vec<D> x[kFanout];  // Lane j of x[c] is child c of node j, then the sum up to it.
    for (std::size_t c = 0; c < kFanout; c += kLanes) {
      for (std::size_t j = 0; j < kLanes; ++j) {
        x[c + j] = hn::Load(d, all_[node_[j]].sum + c);
      }
      transpose(d, x + c);
    }
    add_up<kFanout>(x);
    const auto all = x[kFanout - 1];
    const auto infinity = hn::Set(d, std::numeric_limits<double>::infinity());
    for (std::size_t c = kFanout - 1; c > 0; --c) {
      x[c] = hn::IfThenElse(hn::Ge(x[c - 1], all), infinity, x[c - 1]);
    }
    x[0] = hn::Zero(d);
    for (std::size_t c = 0; c < kFanout; c += kLanes) {
      transpose(d, x + c);
      for (std::size_t j = 0; j < kLanes; ++j) {
        hn::Store(x[c + j], d, prefixes_[node_[j]].before + c);
      }
    }
    return all;
  }

  template <std::size_t kNodes, class U>
  HWY_INLINE void bounds(U u, std::uint32_t* to) const {
    constexpr std::size_t kLanes = hn::MaxLanes(U());
    const auto one = hn::Set(u, 1);
    hn::Vec<U> rows[2 * kNodes];
    if constexpr (kLanes == 2 * kFanout) {
      const auto minima = hn::FirstN(u, kFanout);
      for (std::size_t j = 0; j < kNodes; ++j) {
        const auto v = load_bits(u, all_[node_[j]].bounds);
        rows[j] = hn::IfThenElse(minima, hn::Sub(v, one), hn::Not(v));
      }
      store_bounds<kNodes>(u, rows, to);
    } else {
      for (std::size_t j = 0; j < kNodes; ++j) {
        const float* const minima = all_[node_[j]].bounds;
        auto minimum = hn::Sub(load_bits(u, minima), one);
        auto maximum = load_bits(u, minima + kFanout);
        for (std::size_t i = kLanes; i < kFanout; i += kLanes) {
          minimum = hn::Min(minimum, hn::Sub(load_bits(u, minima + i), one));
          maximum = hn::Max(maximum, load_bits(u, minima + kFanout + i));
        }
        rows[2 * j] = minimum;
        rows[2 * j + 1] = hn::Not(maximum);
      }
      store_bounds<2 * kNodes>(u, rows, to);
    }
  }

 private:
  const Group* all_;
  Prefixes* prefixes_;
  const std::uint32_t* node_;
};

/// Recomputes a block of B::kLanes nodes.
template <class B, class Children>
HWY_INLINE void refresh_block(const Children& children, const std::uint32_t* nodes, Group* to) {
  alignas(64) double sums[B::kLanes];
  alignas(64) std::uint32_t bounds[2 * B::kLanes];
  const typename B::Doubles d;
  hn::Store(children.sums(d), d, sums);
  children.template bounds<B::kLanes>(typename B::Bits(), bounds);
  for (std::size_t i = 0; i < B::kLanes; ++i) {
    Group& group = to[nodes[i] / kFanout];
    const std::size_t slot = nodes[i] % kFanout;
    group.sum[slot] = sums[i];
    group.bounds[slot] = std::bit_cast<float>(bounds[2 * i] + 1);
    group.bounds[kFanout + slot] = std::bit_cast<float>(~bounds[2 * i + 1]);
  }
}

/// Recomputes nodes block by block. children(first) returns the children of the block whose nodes
/// begin at `first`.
template <class Children>
HWY_INLINE void refresh(std::span<const std::uint32_t> nodes, Group* to, const Prefixes* prefixes,
                        const Children& children) {
  using Wide = Block<kFanout>;
  using Alone = Block<1>;
  std::size_t i = 0;
  for (; i + Wide::kLanes <= nodes.size(); i += Wide::kLanes) {
    for (std::size_t j = i; j < i + Wide::kLanes; ++j) {
      const std::size_t ahead = nodes[std::min(j + kAhead, nodes.size() - 1)];
      hwy::Prefetch(to[ahead / kFanout].sum);
      hwy::Prefetch(to[ahead / kFanout].bounds);
      hwy::Prefetch(prefixes[ahead / kFanout].before);
    }
    refresh_block<Wide>(children(&nodes[i]), &nodes[i], to);
  }
  const std::size_t left = nodes.size() - i;
  if (left == 1) {
    refresh_block<Alone>(children(&nodes[i]), &nodes[i], to);
  } else if (left > 1) {
    // The block is filled up with the same nodes, whose results are the same each time.
    std::uint32_t last[Wide::kLanes];
    for (std::size_t j = 0; j < Wide::kLanes; ++j) {
      last[j] = nodes[i + j % left];
    }
    refresh_block<Wide>(children(last), last, to);
  }
}

void sum_leaves(const float* leaves, std::span<const std::uint32_t> nodes, Group* to,
                const Prefixes* prefixes) {
  refresh(nodes, to, prefixes,
          [=](const std::uint32_t* node) HWY_ATTR { return LeafChildren(leaves, node); });
}

void sum_groups(const Group* from, std::span<const std::uint32_t> nodes, Group* to,
                const Prefixes* prefixes, Prefixes* from_prefixes) {
  refresh(nodes, to, prefixes, [=](const std::uint32_t* node) HWY_ATTR {
    return GroupChildren(from, from_prefixes, node);
  });
}

using Doubles = hn::CappedTag<double, kFanout>;

void descend(const Prefixes* level, std::span<double> targets, std::uint32_t* nodes,
             const void* below) {
  const Doubles d;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const double* const before = level[nodes[i]].before;
    // The first prefix sum is 0, so at least one is not above the target.
    const std::size_t child = count_at_most<kFanout>(d, before, targets[i]) - 1;
    targets[i] -= before[child];
    const std::size_t node = nodes[i] * kFanout + child;
    nodes[i] = static_cast<std::uint32_t>(node);
    hwy::Prefetch(static_cast<const char*>(below) + node * sizeof(Prefixes));
  }
}

/// Does the work of `find_leaf` for as many draws as a vector has doubles.
HWY_INLINE void find_leaf_block(const float* leaves, const double* targets, std::uint32_t* nodes,
                                float* weights) {
  const Doubles d;
  const hn::RebindToUnsigned<Doubles> u;
  constexpr std::size_t kLanes = hn::MaxLanes(Doubles());
  hn::Vec<Doubles> ends[kLeavesPerNode];  // Lane j of ends[c] is the end of child c of node j.
  for (std::size_t c = 0; c < kLeavesPerNode; c += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      ends[c + j] = load_as(d, leaves + nodes[j] * kLeavesPerNode + c);
    }
    transpose(d, ends + c);
  }
  add_up<kLeavesPerNode>(ends);
  // Rounding may have carried the target beyond the sum: the largest double below the sum is the
  // last position inside.
  const auto one = hn::Set(u, 1);
  const auto inside = hn::BitCast(d, hn::Sub(hn::BitCast(u, ends[kLeavesPerNode - 1]), one));
  const auto target = hn::Min(hn::LoadU(d, targets), inside);
  auto child = hn::Zero(u);
  for (std::size_t c = 0; c < kLeavesPerNode - 1; ++c) {
    child = hn::Sub(child, hn::BitCast(u, hn::VecFromMask(d, hn::Le(ends[c], target))));
  }
  alignas(64) std::uint64_t children[kLanes];
  hn::Store(child, u, children);
  for (std::size_t j = 0; j < kLanes; ++j) {
    nodes[j] = static_cast<std::uint32_t>(nodes[j] * kLeavesPerNode + children[j]);
    weights[j] = leaves[nodes[j]];
  }
}

void find_leaf(const float* leaves, std::span<const double> targets, std::uint32_t* nodes,
               float* weights) {
  constexpr std::size_t kLanes = hn::MaxLanes(Doubles());
  std::size_t i = 0;
  for (; i + kLanes <= targets.size(); i += kLanes) {
    find_leaf_block(leaves, &targets[i], nodes + i, weights + i);
  }
  if (const std::size_t left = targets.size() - i; left != 0) {
    double last_targets[kLanes];
    std::uint32_t last_nodes[kLanes];
    float last_weights[kLanes];
    for (std::size_t j = 0; j < kLanes; ++j) {
      last_targets[j] = targets[i + j % left];
      last_nodes[j] = nodes[i + j % left];
    }
    find_leaf_block(leaves, last_targets, last_nodes, last_weights);
    std::copy_n(last_nodes, left, nodes + i);
    std::copy_n(last_weights, left, weights + i);
  }
}

}  // namespace reprise::tree::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise::tree {

HWY_EXPORT(sum_leaves);
HWY_EXPORT(sum_groups);
HWY_EXPORT(descend);
HWY_EXPORT(find_leaf);

void sum_leaves(const float* leaves, std::span<const std::uint32_t> nodes, Group* to,
                const Prefixes* prefixes) noexcept {
  HWY_DYNAMIC_DISPATCH(sum_leaves)(leaves, nodes, to, prefixes);
}

void sum_groups(const Group* from, std::span<const std::uint32_t> nodes, Group* to,
                const Prefixes* prefixes, Prefixes* from_prefixes) noexcept {
  HWY_DYNAMIC_DISPATCH(sum_groups)(from, nodes, to, prefixes, from_prefixes);
}

void descend(const Prefixes* level, std::span<double> targets, std::uint32_t* nodes,
             const void* below) noexcept {
  HWY_DYNAMIC_DISPATCH(descend)(level, targets, nodes, below);
}

void find_leaf(const float* leaves, std::span<const double> targets, std::uint32_t* nodes,
               float* weights) noexcept {
  HWY_DYNAMIC_DISPATCH(find_leaf)(leaves, targets, nodes, weights);
}

}  // namespace reprise::tree
#endif
