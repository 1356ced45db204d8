#pragma once

#include "record/bytes.hpp"

#include <cstdint>

namespace reprise::record {

/// XXH3-64 (Yann Collet, xxHash 0.8) with seed 0.
[[nodiscard]] std::uint64_t checksum(Bytes bytes) noexcept;

/// Whether a checksum is the one that was written. In a fuzzer's build it always is, so that inputs
/// get past the first checksum.
[[nodiscard]] constexpr bool checksums_agree([[maybe_unused]] std::uint64_t written,
                                             [[maybe_unused]] std::uint64_t computed) noexcept {
#if defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
  return true;
#else
  return written == computed;
#endif
}

}  // namespace reprise::record
