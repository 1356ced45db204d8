#include "record/checksum.hpp"

// The whole of xxHash is inlined, so that neither this library nor its users link to it.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace reprise::record {

std::uint64_t checksum(std::span<const Bytes> parts) noexcept {
  if (parts.size() == 1) {
    return XXH3_64bits(parts.front().data(), parts.front().size());
  }
  // The calls below report only null pointers as errors.
  XXH3_state_t state;
  static_cast<void>(XXH3_64bits_reset(&state));
  for (const Bytes part : parts) {
    if (!part.empty()) {
      static_cast<void>(XXH3_64bits_update(&state, part.data(), part.size()));
    }
  }
  return XXH3_64bits_digest(&state);
}

}  // namespace reprise::record
