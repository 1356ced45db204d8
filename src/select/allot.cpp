#include "select/allot.hpp"

#include <algorithm>

namespace reprise::select {
namespace {

/// The greatest double below 1: a fraction never reaches the shard's total.
constexpr double kBelowOne = 1.0 - 0x1p-53;

}  // namespace

void allot(std::span<const double> shares, bool stratified, base::Random& random,
           std::span<double> scratch, std::span<double> fractions,
           std::span<std::size_t> counts) noexcept {
  const std::size_t n = fractions.size();
  if (stratified) {
    const double part = 1.0 / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      scratch[i] = (static_cast<double>(i) + random.uniform()) * part;
    }
  } else {
    std::generate_n(scratch.begin(), n, [&] { return random.uniform(); });
    std::sort(scratch.begin(), scratch.begin() + static_cast<std::ptrdiff_t>(n));
  }
  // The last shard with a share takes the rest that rounding leaves.
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
    // The share of a shard without draws may be 0.
    const double scale = counts[s] == 0 ? 0.0 : 1.0 / shares[s];
    for (std::size_t j = first; j < i; ++j) {
      fractions[j] = std::clamp((scratch[j] - start) * scale, 0.0, kBelowOne);
    }
    start = end;
  }
}

}  // namespace reprise::select
