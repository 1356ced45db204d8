#pragma once

#include "network.hpp"

#include <cstddef>
#include <cstdint>

namespace apex {

/// Mean and (sample) standard deviation of the returns of some episodes.
struct Score {
  std::size_t episodes = 0;
  float mean = 0.0F;
  float deviation = 0.0F;
};

/// Seeds that no environment of this run has seen or will see: training draws from the streams of
/// the actors, each evaluation takes new ones.
class FreshSeeds {
 public:
  explicit FreshSeeds(std::uint64_t run_seed) : run_seed_(run_seed) {}
  [[nodiscard]] std::uint64_t next();

 private:
  std::uint64_t run_seed_;
  std::uint64_t given_ = 0;
};

/// Plays whole episodes greedily, all at once, each in a new environment with a seed of its own.
[[nodiscard]] Score evaluate(Network network, FreshSeeds& seeds, std::size_t episodes);

}  // namespace apex
