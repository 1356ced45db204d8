// Google Highway, and the targets that this library is compiled for. Each including source is
// compiled once per target, so this header is read once per target and has no `#pragma once`.
// Before including it, the source defines HWY_TARGET_INCLUDE as its own path below src/.

// On x86: AVX-512, AVX2, and plain C++ for the rest; better ones have lower bits. On Arm: NEON.
// Vectors of a size unknown to the compiler (SVE, RVV) are left out because a node is an array of
// vectors.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS                                                                 \
  ((HWY_AVX3 - 1) | HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | \
   HWY_RVV)
#endif

#include <hwy/foreach_target.h>
// foreach_target has to come first, because it chooses what highway.h defines.
#include <hwy/cache_control.h>
#include <hwy/highway.h>
