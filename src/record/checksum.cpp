#include "record/checksum.hpp"

// The whole of xxHash is inlined, so that neither this library nor its users link to it.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace reprise::record {

std::uint64_t checksum(Bytes bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace reprise::record
