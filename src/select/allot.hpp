#pragma once

#include "base/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace reprise::select {

/// Copies uniformly distributed positions in [0, 1) from `from` to `to`, sorted. O(n) for some
/// hundred to some thousand positions.
inline void sort_uniform(std::span<const double> from, std::span<double> to) noexcept {
  constexpr std::size_t kParts = 512;
  if (from.size() < kParts / 4) {  // For so few, the work per part costs more than it saves.
    std::ranges::copy(from, to.begin());
    std::ranges::sort(to.first(from.size()));
    return;
  }
  const auto part = [](double position) {
    return static_cast<std::size_t>(position * static_cast<double>(kParts));
  };
  // Where each part begins in `to`. While positions are copied, this moves on to where it ends.
  std::array<std::ptrdiff_t, kParts + 1> ends{};
  for (const double position : from) {
    ++ends[part(position) + 1];
  }
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  for (const double position : from) {
    to[static_cast<std::size_t>(ends[part(position)]++)] = position;
  }
  for (std::size_t i = 0, begin = 0; i < kParts; begin = static_cast<std::size_t>(ends[i++])) {
    std::ranges::sort(to.subspan(begin, static_cast<std::size_t>(ends[i]) - begin));
  }
}

/// Where draws are placed: one in each n-th of the total weight, or each anywhere in it.
enum class Spread : std::uint8_t { Stratified, Independent };

/// Places n draws over the whole buffer. `fractions` receives one position per draw, grouped by
/// shard, each in [0, 1) of its shard's weight; the first counts[0] are those of shard 0, and so
/// on.
///
/// `shares` are the shards' parts of the total weight, and sum to 1; a shard with share 0 gets no
/// draw. `scratch` has room for n.
inline void allot(std::span<const double> shares, Spread spread, base::Random& random,
                  std::span<double> scratch, std::span<double> fractions,
                  std::span<std::size_t> counts) noexcept {
  constexpr double kBelowOne = 1.0 - 0x1p-53;  // The largest fraction: it must stay below 1.
  const std::size_t n = fractions.size();
  if (spread == Spread::Stratified) {
    const double part = 1.0 / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      scratch[i] = (static_cast<double>(i) + random.uniform()) * part;
    }
  } else {
    std::ranges::generate(fractions, [&] { return random.uniform(); });
    sort_uniform(fractions, scratch);
  }
  // Rounding may leave positions beyond the last shard with a share, which takes them too.
  std::size_t last = shares.size() - 1;
  while (last > 0 && shares[last] <= 0.0) {
    --last;
  }
  double start = 0.0;
  std::size_t i = 0;
  for (std::size_t s = 0; s < shares.size(); ++s) {
    // Positions rise, and so do the shards' boundaries.
    const double end = start + shares[s];
    const std::size_t first = i;
    if (s == last) {
      i = n;
    } else if (shares[s] > 0.0) {
      while (i < n && scratch[i] < end) {
        ++i;
      }
    }
    counts[s] = i - first;
    // Without draws the share may be 0, and must not be divided by.
    const double scale = counts[s] == 0 ? 0.0 : 1.0 / shares[s];
    for (std::size_t j = first; j < i; ++j) {
      fractions[j] = std::clamp((scratch[j] - start) * scale, 0.0, kBelowOne);
    }
    start = end;
  }
}

/// How many of n draws each shard gets: n times its share, rounded up or down so that the mean is
/// exact (systematic sampling: Madow, "On the theory of systematic sampling", 1949). `offset` is
/// uniform in [0, 1). `shares` as in `allot`.
inline void allot_counts(std::span<const double> shares, std::size_t n, double offset,
                         std::span<std::size_t> counts) noexcept {
  std::size_t last = shares.size() - 1;
  while (last > 0 && shares[last] <= 0.0) {
    --last;
  }
  // Draw i has the position (i + offset) / n; a shard gets the draws in its part of [0, 1).
  double end = 0.0;
  std::size_t done = 0;
  for (std::size_t s = 0; s < shares.size(); ++s) {
    end += shares[s];
    const double before_end = std::max(0.0, std::ceil(end * static_cast<double>(n) - offset));
    const std::size_t up_to =
        s >= last ? n : std::clamp(static_cast<std::size_t>(before_end), done, n);
    counts[s] = shares[s] > 0.0 ? up_to - done : 0;
    done += counts[s];
  }
}

}  // namespace reprise::select
