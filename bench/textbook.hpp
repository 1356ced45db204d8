#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

/// What a competent user writes instead of a library: two implicit binary trees of double, rows
/// in one vector with the next observation in each, std::pow, and one std::mutex around it all.
namespace textbook {

/// A binary tree whose nodes combine the two below. The leaves begin at node `width`, the root is
/// node 1.
template <class Combine>
class Tree {
 public:
  Tree(std::size_t leaves, double initial)
      : width_(std::bit_ceil(leaves)), nodes_(2 * width_, initial) {}

  [[nodiscard]] double root() const { return nodes_[1]; }
  [[nodiscard]] double at(std::size_t leaf) const { return nodes_[width_ + leaf]; }

  void set(std::size_t leaf, double weight) {
    std::size_t node = width_ + leaf;
    nodes_[node] = weight;
    while (node > 1) {
      node /= 2;
      nodes_[node] = Combine()(nodes_[2 * node], nodes_[2 * node + 1]);
    }
  }

 protected:
  std::size_t width_;
  std::vector<double> nodes_;
};

/// Minimum of the weights set so far, infinity at first.
struct Minimum {
  const double& operator()(const double& a, const double& b) const { return std::min(a, b); }
};
class MinTree : public Tree<Minimum> {
 public:
  explicit MinTree(std::size_t leaves) : Tree(leaves, std::numeric_limits<double>::infinity()) {}
};

/// Sums of non-negative weights.
class SumTree : public Tree<std::plus<>> {
 public:
  explicit SumTree(std::size_t leaves) : Tree(leaves, 0.0) {}

  [[nodiscard]] double total() const { return root(); }

  /// Of the leaves from `first` to before `last`.
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

  /// The leaf under `target`, from 0 to below the total. Not inlined: where registers are scarce
  /// the loop would load the nodes' address anew at each node, which took a tenth longer.
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

/// Items that are drawn in proportion to (priority + epsilon)^alpha: two trees, and no lock.
class Items {
 public:
  static constexpr double kAlpha = 0.6;
  static constexpr double kEpsilon = 1e-4;

  explicit Items(std::size_t size) : sums_(size), minima_(size) {}

  [[nodiscard]] double total() const { return sums_.total(); }

  void set(std::size_t item, double priority) {
    const double weight = std::pow(priority + kEpsilon, kAlpha);
    sums_.set(item, weight);
    minima_.set(item, weight);
  }
  void update(std::span<const std::uint32_t> items, std::span<const float> priorities) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      set(items[i], static_cast<double>(priorities[i]));
    }
  }
  /// Draws one item from each equal part of the total, with its importance weight: (weight /
  /// smallest weight)^-beta. `uniform()` is in [0, 1); each item i is taken by `take(i, item)`.
  template <class Uniform, class Take>
  void draw(double beta, std::span<std::uint32_t> items, std::span<float> weights,
            const Uniform& uniform, const Take& take) const {
    const double part = total() / static_cast<double>(items.size());
    const double smallest = minima_.root();
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::size_t item = sums_.find((static_cast<double>(i) + uniform()) * part);
      items[i] = static_cast<std::uint32_t>(item);
      weights[i] = static_cast<float>(std::pow(sums_.at(item) / smallest, -beta));
      take(i, item);
    }
  }

 private:
  SumTree sums_;
  MinTree minima_;
};

/// A ring of transitions of `row_bytes` each, drawn by priority. Every method from any thread. An
/// index names a place, not an item: an update that comes after its row was overwritten lands on
/// the row that lives there now.
class Buffer {
 public:
  Buffer(std::size_t row_bytes, std::size_t capacity)
      : row_bytes_(row_bytes), capacity_(capacity), rows_(row_bytes * capacity), items_(capacity) {}

  /// Stores a transition at the highest priority seen, 1 at first.
  void add(std::span<const std::byte> row) { store(row, nullptr); }
  void add(std::span<const std::byte> row, float priority) { store(row, &priority); }

  /// Draws a row for each of the indices, and copies them to `rows`, one after the other. False
  /// while nothing can be drawn.
  bool sample(double beta, std::span<std::byte> rows, std::span<float> weights,
              std::span<std::uint32_t> indices) {
    return draw(beta, weights, indices, [&](std::size_t i, std::size_t index) {
      std::memcpy(&rows[i * row_bytes_], &rows_[index * row_bytes_], row_bytes_);
    });
  }

  /// Draws a window of `length` consecutive rows for each of the indices, and calls copy(window,
  /// step, row, following row) for each of its steps. The ring's youngest row may be followed by
  /// its oldest.
  template <class Copy>
  bool sample_windows(std::size_t length, double beta, std::span<float> weights,
                      std::span<std::uint32_t> indices, const Copy& copy) {
    return draw(beta, weights, indices, [&](std::size_t i, std::size_t at) {
      for (std::size_t k = 0; k < length; ++k) {
        const std::size_t next = at + 1 == capacity_ ? 0 : at + 1;
        copy(i, k, &rows_[at * row_bytes_], &rows_[next * row_bytes_]);
        at = next;
      }
    });
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
  template <class Take>
  bool draw(double beta, std::span<float> weights, std::span<std::uint32_t> indices,
            const Take& take) {
    const std::lock_guard lock(mutex_);
    if (!(items_.total() > 0.0)) {
      return false;
    }
    std::uniform_real_distribution<double> unit;
    items_.draw(
        beta, indices, weights, [&] { return unit(random_); }, take);
    return true;
  }
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
    items_.set(index, priority);
    highest_ = std::max(highest_, priority);
  }

  const std::size_t row_bytes_;
  const std::size_t capacity_;

  mutable std::mutex mutex_;  // Guards everything below.
  std::vector<std::byte> rows_;
  Items items_;
  SplitMix64 random_{1};
  double highest_ = 1.0;
  std::uint64_t added_ = 0;
};

}  // namespace textbook
