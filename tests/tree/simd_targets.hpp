#pragma once

#include <hwy/targets.h>

#include <cstdint>

namespace reprise::tree {

/// Runs the body once for each instruction set that this machine has and the kernels are compiled
/// for, and last in plain C++.
template <class Body>
void for_each_target(Body body) {
  for (const std::int64_t target :
       {std::int64_t{HWY_AVX3}, std::int64_t{HWY_AVX2}, std::int64_t{HWY_NEON}, std::int64_t{0}}) {
    if (target == 0 || (hwy::SupportedTargets() & target) != 0) {
      hwy::GetChosenTarget().Update(target);
      body();
    }
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace reprise::tree
