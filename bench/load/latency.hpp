#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace bench {

/// Counts durations in buckets. A bucket is 1 ns wide, and from 32 ns on at most 1/16 of its
/// durations. Never allocates.
class Latency {
 public:
  void add(std::chrono::nanoseconds duration) noexcept {
    const auto ns = static_cast<std::uint64_t>(duration.count() < 0 ? 0 : duration.count());
    ++counts_[bucket(ns)];
    ++total_;
  }

  void merge(const Latency& other) noexcept {
    for (std::size_t i = 0; i < kBuckets; ++i) {
      counts_[i] += other.counts_[i];
    }
    total_ += other.total_;
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return total_; }

  /// Returns the middle of the bucket that contains the quantile `share` (0 to 1), in nanoseconds.
  [[nodiscard]] double quantile_ns(double share) const noexcept {
    const double wanted = share * static_cast<double>(total_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (seen != 0 && static_cast<double>(seen) >= wanted) {
        return (lowest(i) + lowest(i + 1)) / 2.0;
      }
    }
    return 0.0;
  }

 private:
  static constexpr std::size_t kPerOctave = 16;
  static constexpr std::size_t kBuckets = 60 * kPerOctave;

  /// Lower bound of a bucket in nanoseconds.
  [[nodiscard]] static double lowest(std::size_t i) noexcept {
    if (i < kPerOctave) {
      return static_cast<double>(i);
    }
    const std::size_t octave = i / kPerOctave - 1;
    return static_cast<double>(kPerOctave + i % kPerOctave) *
           static_cast<double>(std::uint64_t{1} << octave);
  }
  static constexpr std::size_t bucket(std::uint64_t ns) noexcept {
    if (ns < kPerOctave) {
      return static_cast<std::size_t>(ns);
    }
    const auto octave = static_cast<std::size_t>(std::bit_width(ns)) - 5;
    return (octave + 1) * kPerOctave + static_cast<std::size_t>(ns >> octave) % kPerOctave;
  }

  std::array<std::uint64_t, kBuckets + kPerOctave> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace bench
