#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

/// What a competent user writes instead of a library: two implicit binary trees of doubles, rows in
/// one vector that include the next observation, std::pow, and one std::mutex for all.
namespace textbook {

// `set` and `find` are never inlined, so that all benchmarks run the same code: GCC's inlined
// copies take a tenth longer in some loops.

/// Sums of non-negative weights. The leaves begin at node `width`, the root is node 1.
class SumTree {
 public:
  explicit SumTree(std::size_t leaves) : width_(std::bit_ceil(leaves)), nodes_(2 * width_, 0.0) {}

  [[nodiscard]] double total() const { return nodes_[1]; }
  [[nodiscard]] double at(std::size_t leaf) const { return nodes_[width_ + leaf]; }

  [[gnu::noinline]] void set(std::size_t leaf, double weight) {
    std::size_t node = width_ + leaf;
    nodes_[node] = weight;
    while (node > 1) {
      node /= 2;
      nodes_[node] = nodes_[2 * node] + nodes_[2 * node + 1];
    }
  }

  /// Returns the sum of the leaves [first, last).
  [[nodiscard]] double sum(std::size_t first, std::size_t last) const {
    double all = 0.0;
    for (first += width_, last += width_; first < last; first /= 2, last /= 2) {
      if (first % 2 == 1) {
        all += nodes_[first++];
      }
      if (last % 2 == 1) {
        all += nodes_[--last];
      }
    }
    return all;
  }

  /// Returns the leaf in whose range of prefix sums `target` lies, which is from 0 to below the
  /// total.
  [[nodiscard, gnu::noinline]] std::size_t find(double target) const {
    std::size_t node = 1;
    while (node < width_) {
      node *= 2;
      if (target >= nodes_[node] && nodes_[node + 1] > 0.0) {
        target -= nodes_[node];
        ++node;
      }
    }
    return node - width_;
  }

 private:
  std::size_t width_;
  std::vector<double> nodes_;
};

/// The minimum of the weights set so far; infinity at first.
class MinTree {
 public:
  explicit MinTree(std::size_t leaves)
      : width_(std::bit_ceil(leaves)),
        nodes_(2 * width_, std::numeric_limits<double>::infinity()) {}

  [[nodiscard]] double minimum() const { return nodes_[1]; }

  [[gnu::noinline]] void set(std::size_t leaf, double weight) {
    std::size_t node = width_ + leaf;
    nodes_[node] = weight;
    while (node > 1) {
      node /= 2;
      nodes_[node] = std::min(nodes_[2 * node], nodes_[2 * node + 1]);
    }
  }

 private:
  std::size_t width_;
  std::vector<double> nodes_;
};

/// A generator for <random>'s distributions, faster than those of the standard library.
class SplitMix64 {
 public:
  using result_type = std::uint64_t;
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

 private:
  std::uint64_t state_;
};

struct Exponents {
  double alpha = 0.6;
  double epsilon = 1e-4;
};

/// A ring of transitions of `row_bytes` each, drawn in proportion to (priority + epsilon)^alpha.
/// Any thread may call any method. An index names a place and not an item: an update that comes
/// after its row was overwritten changes the new row's priority.
class Buffer {
 public:
  Buffer(std::size_t row_bytes, std::size_t capacity, Exponents exponents = {},
         std::uint64_t seed = 1)
      : row_bytes_(row_bytes),
        capacity_(capacity),
        exponents_(exponents),
        rows_(row_bytes * capacity),
        sums_(capacity),
        minima_(capacity),
        random_(seed) {}

  /// Stores a transition. Without a `priority` it gets the highest priority seen, which is 1 at
  /// first.
  void add(std::span<const std::byte> row) { store(row, nullptr); }
  void add(std::span<const std::byte> row, float priority) { store(row, &priority); }

  /// Draws n rows, one from each of n equal parts of the total, and copies them to `rows`, one
  /// after the other. Importance weights are (weight / smallest weight)^-beta. Returns false if
  /// every weight is 0.
  bool sample(std::size_t n, double beta, std::span<std::byte> rows, std::span<float> weights,
              std::span<std::uint32_t> indices) {
    const std::lock_guard lock(mutex_);
    const double total = sums_.total();
    if (!(total > 0.0)) {
      return false;
    }
    std::uniform_real_distribution<double> unit;
    const double part = total / static_cast<double>(n);
    const double smallest = minima_.minimum();
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t index = sums_.find((static_cast<double>(i) + unit(random_)) * part);
      const double weight = sums_.at(index);
      indices[i] = static_cast<std::uint32_t>(index);
      weights[i] = static_cast<float>(std::pow(weight / smallest, -beta));
      std::memcpy(&rows[i * row_bytes_], &rows_[index * row_bytes_], row_bytes_);
    }
    return true;
  }

  /// Draws n windows of `length` consecutive rows, and calls copy(window, step, row, following row)
  /// for each step of a window. A window may run from the ring's youngest row to its oldest.
  template <class Copy>
  bool sample_windows(std::size_t n, std::size_t length, double beta, std::span<float> weights,
                      std::span<std::uint32_t> indices, const Copy& copy) {
    const std::lock_guard lock(mutex_);
    const double total = sums_.total();
    if (!(total > 0.0)) {
      return false;
    }
    std::uniform_real_distribution<double> unit;
    const double part = total / static_cast<double>(n);
    const double smallest = minima_.minimum();
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t index = sums_.find((static_cast<double>(i) + unit(random_)) * part);
      indices[i] = static_cast<std::uint32_t>(index);
      weights[i] = static_cast<float>(std::pow(sums_.at(index) / smallest, -beta));
      std::size_t at = index;
      for (std::size_t k = 0; k < length; ++k) {
        const std::size_t next = at + 1 == capacity_ ? 0 : at + 1;
        copy(i, k, &rows_[at * row_bytes_], &rows_[next * row_bytes_]);
        at = next;
      }
    }
    return true;
  }

  void update(std::span<const std::uint32_t> indices, std::span<const float> priorities) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      set(indices[i], static_cast<double>(priorities[i]));
    }
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::min<std::uint64_t>(added_, capacity_));
  }

 private:
  void store(std::span<const std::byte> row, const float* priority) {
    if (row.size() != row_bytes_) {
      throw std::invalid_argument("a textbook row has another size");
    }
    const std::lock_guard lock(mutex_);
    const std::size_t index = static_cast<std::size_t>(added_ % capacity_);
    std::memcpy(&rows_[index * row_bytes_], row.data(), row_bytes_);
    set(index, priority == nullptr ? highest_ : static_cast<double>(*priority));
    ++added_;
  }

  void set(std::size_t index, double priority) {
    const double weight = std::pow(priority + exponents_.epsilon, exponents_.alpha);
    sums_.set(index, weight);
    minima_.set(index, weight > 0.0 ? weight : std::numeric_limits<double>::infinity());
    highest_ = std::max(highest_, priority);
  }

  const std::size_t row_bytes_;
  const std::size_t capacity_;
  const Exponents exponents_;

  mutable std::mutex mutex_;  // Guards everything below.
  std::vector<std::byte> rows_;
  SumTree sums_;
  MinTree minima_;
  SplitMix64 random_;
  double highest_ = 1.0;
  std::uint64_t added_ = 0;
};

}  // namespace textbook
