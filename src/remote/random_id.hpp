#pragma once

#include <cstdint>
#include <random>

namespace reprise::remote {

/// 64 random bits. Two processes get the same bits with a probability of 2^-64.
[[nodiscard]] inline std::uint64_t random_id() {
  std::random_device source;
  return std::uint64_t{source()} << 32U | source();
}

}  // namespace reprise::remote
