#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// Counts how often numbered items were drawn, and compares the counts with a distribution that is
/// proportional to the sum of the expectations. Expectations may change from draw to draw, so the
/// buffer may change between draws.
class DrawCounts {
 public:
  /// Adds the number of times that this item is expected to be drawn.
  void expect(std::uint64_t number, double draws) { expected_[number] += draws; }
  void count(std::uint64_t number) { ++counts_[number]; }
  void count(std::span<const std::uint64_t> numbers) {
    for (const std::uint64_t number : numbers) {
      count(number);
    }
  }
  void add(const DrawCounts& other) {
    for (const auto& [number, expected] : other.expected_) {
      expected_[number] += expected;
    }
    for (const auto& [number, count] : other.counts_) {
      counts_[number] += count;
    }
  }

  /// `chi_square_z` of all draws so far; infinite if an item was drawn that was never expected.
  [[nodiscard]] double z() const;

 private:
  std::map<std::uint64_t, double> expected_;
  std::map<std::uint64_t, std::uint64_t> counts_;
};

}  // namespace reprise::test
