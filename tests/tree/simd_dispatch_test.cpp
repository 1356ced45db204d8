// Reports the instruction set that the library uses. Compiled once for each target of the kernels.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tree/simd_dispatch_test.cpp"
#include "tree/simd.hpp"

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace reprise::tree::HWY_NAMESPACE {

std::int64_t own_target() {
  return HWY_TARGET;
}

}  // namespace reprise::tree::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

namespace reprise::tree {
namespace {

HWY_EXPORT(own_target);

TEST(SimdIdentity, ChosenTargetIsTheBestOfTheMachine) {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  const std::int64_t chosen = HWY_DYNAMIC_DISPATCH(own_target)();
#if defined(__aarch64__)
  EXPECT_EQ(chosen, HWY_NEON) << "this is " << hwy::TargetName(chosen);
#elif defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                    __builtin_cpu_supports("bmi2") != 0;
  EXPECT_EQ(chosen == HWY_AVX2 || chosen == HWY_AVX3, avx2)
      << "this is " << hwy::TargetName(chosen);
#else
  GTEST_SKIP() << "which target is best here is not known; this is " << hwy::TargetName(chosen);
#endif
}

}  // namespace
}  // namespace reprise::tree
#endif
