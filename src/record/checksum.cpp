#include "record/checksum.hpp"

// The whole of it, inlined: nothing to link, for us or for who links to us.
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

// The calls below report errors of null pointers alone.
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
