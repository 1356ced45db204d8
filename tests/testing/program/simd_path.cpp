// Makes a test program use a lesser instruction set than the machine has, if the environment
// variable REPRISE_SIMD is avx2, or none for plain C++.

#include <hwy/targets.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

const bool kChosen = [] {
  const char* const name = std::getenv("REPRISE_SIMD");
  if (name == nullptr || *name == '\0') {
    return false;
  }
  constexpr std::int64_t kAvx512 = HWY_AVX3 | HWY_AVX3_DL;
  if (std::string_view(name) == "avx2") {
    hwy::DisableTargets(kAvx512);
  } else if (std::string_view(name) == "none") {
    hwy::DisableTargets(kAvx512 | HWY_AVX2 | HWY_NEON);
  } else {
    std::fprintf(stderr, "REPRISE_SIMD is '%s'; allowed: avx2, none\n", name);
    std::abort();
  }
  return true;
}();

}  // namespace
