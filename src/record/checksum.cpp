#include "record/checksum.hpp"

// The whole of xxHash is inlined, so that neither this library nor its users link to it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>

namespace reprise::record {

struct Checksum::State {
  XXH3_state_t xxh3;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  reset();
}

Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

// The calls below report only null pointers as errors.
void Checksum::reset() noexcept {
  static_cast<void>(XXH3_64bits_reset(&state_->xxh3));
}

void Checksum::add(Bytes bytes) noexcept {
  if (!bytes.empty()) {
    static_cast<void>(XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size()));
  }
}

std::uint64_t Checksum::value() const noexcept {
  return XXH3_64bits_digest(&state_->xxh3);
}

std::uint64_t checksum(Bytes bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace reprise::record
