#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace stress {

using Clock = std::chrono::steady_clock;

/// Counts of durations in buckets that are at most 1/16 of their value wide. Never allocates.
///
/// One thread at a time.
class Latency {
 public:
  static constexpr std::size_t kPerOctave = 16;
  static constexpr std::size_t kBuckets = 60 * kPerOctave;

  void add(std::chrono::nanoseconds duration) noexcept {
    const auto ns = static_cast<std::uint64_t>(duration.count() < 0 ? 0 : duration.count());
    ++counts_[bucket(ns)];
    ++total_;
    if (ns > max_) {
      max_ = ns;
    }
  }

  void merge(const Latency& other) noexcept {
    for (std::size_t i = 0; i < kBuckets; ++i) {
      counts_[i] += other.counts_[i];
    }
    total_ += other.total_;
    max_ = other.max_ > max_ ? other.max_ : max_;
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return total_; }
  [[nodiscard]] std::uint64_t in_bucket(std::size_t i) const noexcept { return counts_[i]; }
  [[nodiscard]] double max_ns() const noexcept { return static_cast<double>(max_); }

  /// Middle of the bucket below which this share of the durations lies, in nanoseconds.
  [[nodiscard]] double quantile_ns(double share) const noexcept {
    const double wanted = share * static_cast<double>(total_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (seen != 0 && static_cast<double>(seen) >= wanted) {
        const double middle = (lowest(i) + lowest(i + 1)) / 2.0;
        return middle < max_ns() ? middle : max_ns();
      }
    }
    return 0.0;
  }

  /// Lower bound of a bucket in nanoseconds.
  [[nodiscard]] static double lowest(std::size_t i) noexcept {
    if (i < kPerOctave) {
      return static_cast<double>(i);
    }
    const std::size_t octave = i / kPerOctave - 1;
    return static_cast<double>(kPerOctave + i % kPerOctave) *
           static_cast<double>(std::uint64_t{1} << octave);
  }

 private:
  static constexpr std::size_t bucket(std::uint64_t ns) noexcept {
    if (ns < kPerOctave) {
      return static_cast<std::size_t>(ns);
    }
    const auto octave = static_cast<std::size_t>(std::bit_width(ns)) - 5;
    return (octave + 1) * kPerOctave + static_cast<std::size_t>(ns >> octave) % kPerOctave;
  }

  std::array<std::uint64_t, kBuckets + kPerOctave> counts_{};
  std::uint64_t total_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace stress
