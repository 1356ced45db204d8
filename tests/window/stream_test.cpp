#include "window/stream.hpp"

#include "testing/test.hpp"

namespace reprise::window {
namespace {

TEST(Stream, CopiesAnyBytesFromAnywhereToAnywhereAndNoOthers) {
  alignas(64) std::array<std::byte, 512> from{};
  for (std::size_t i = 0; i < from.size(); ++i) {
    from.at(i) = static_cast<std::byte>(i % 251 + 1);
  }
  for (std::size_t bytes = 0; bytes <= 260; bytes += bytes < 140 ? 1 : 13) {
    for (std::size_t to_at = 0; to_at < 66; ++to_at) {
      const std::size_t from_at = (to_at * 7 + bytes) % 67;
      alignas(64) std::array<std::byte, 512> to{};
      stream_bytes(to.data() + to_at, from.data() + from_at, bytes);
      end_stream();
      const std::span<const std::byte> all(to);
      const auto nothing = [](std::byte b) { return b == std::byte{0}; };
      ASSERT_TRUE(
          std::ranges::equal(all.subspan(to_at, bytes), std::span(from).subspan(from_at, bytes)));
      ASSERT_TRUE(std::ranges::all_of(all.first(to_at), nothing));
      ASSERT_TRUE(std::ranges::all_of(all.subspan(to_at + bytes), nothing));
    }
  }
}

}  // namespace
}  // namespace reprise::window
