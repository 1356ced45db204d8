#include "window/stream.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "window/stream.cpp"
#include "tree/simd.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace reprise::window::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// How many bytes ahead are prefetched. The frames of a window follow each other in memory, but the
/// processor's prefetcher stops at the end of a page.
constexpr std::size_t kReadAhead = 4096;

void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  const hn::CappedTag<std::uint8_t, 64> d;
  const std::size_t lanes = hn::Lanes(d);
  // Stores past the caches need aligned vectors, which then lie in one cache line each.
  const std::size_t head =
      std::min(bytes, (lanes - reinterpret_cast<std::uintptr_t>(to) % lanes) % lanes);
  std::memcpy(to, from, head);
  auto* const out = reinterpret_cast<std::uint8_t*>(to);
  const auto* const in = reinterpret_cast<const std::uint8_t*>(from);
  std::size_t done = head;
  for (; done + lanes <= bytes; done += lanes) {
    hwy::Prefetch(in + done + kReadAhead);  // It cannot fault.
    hn::Stream(hn::LoadU(d, in + done), d, out + done);
  }
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace reprise::window::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise::window {

HWY_EXPORT(stream_bytes);

void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  HWY_DYNAMIC_DISPATCH(stream_bytes)(to, from, bytes);
}

void end_stream() noexcept {
  hwy::FlushStream();
}

}  // namespace reprise::window
#endif
