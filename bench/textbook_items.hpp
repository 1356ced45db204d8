#pragma once

#include "measure.hpp"
#include "textbook.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace bench {

/// The textbook's trees for W1's draws and updates, without rows and without a lock.
class TextbookItems {
 public:
  explicit TextbookItems(std::size_t size) : sums_(size), minima_(size) {}

  void set(std::size_t item, float priority) {
    const double weight = std::pow(static_cast<double>(priority) + static_cast<double>(kEpsilon),
                                   static_cast<double>(kAlpha));
    sums_.set(item, weight);
    minima_.set(item, weight);
  }
  void update(std::span<const std::uint32_t> items, std::span<const float> priorities) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      set(items[i], priorities[i]);
    }
  }
  /// Draws one item from each of equal parts of the total, with its importance weight.
  void draw(Random& random, std::span<std::uint32_t> items, std::span<float> weights) const {
    const double part = sums_.total() / static_cast<double>(items.size());
    const double smallest = minima_.minimum();
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::size_t item = sums_.find((static_cast<double>(i) + random.uniform()) * part);
      items[i] = static_cast<std::uint32_t>(item);
      weights[i] =
          static_cast<float>(std::pow(sums_.at(item) / smallest, -static_cast<double>(kBeta)));
    }
  }

 private:
  textbook::SumTree sums_;
  textbook::MinTree minima_;
};

}  // namespace bench
