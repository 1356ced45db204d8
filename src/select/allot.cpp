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
  for (std::size_t i = 0; i < n; ++i) {
    scratch[i] = stratified ? (static_cast<double>(i) + random.uniform()) / static_cast<double>(n)
                            : random.uniform();
  }
  if (!stratified) {
    std::sort(scratch.begin(), scratch.begin() + static_cast<std::ptrdiff_t>(n));
  }
  // Positions rise, and so do the shards' boundaries: one pass over both. The last shard with a
  // share takes what rounding leaves beyond the sum.
  std::size_t last = shares.size() - 1;
  while (last > 0 && shares[last] <= 0.0) {
    --last;
  }
  std::fill(counts.begin(), counts.end(), 0);
  double start = 0.0;
  std::size_t shard = 0;
  for (std::size_t i = 0; i < n; ++i) {
    while (shard < last && (shares[shard] <= 0.0 || scratch[i] >= start + shares[shard])) {
      start += shares[shard];
      ++shard;
    }
    fractions[i] = std::clamp((scratch[i] - start) / shares[shard], 0.0, kBelowOne);
    ++counts[shard];
  }
}

}  // namespace reprise::select
