#include <reprise/detail/finite.hpp>

#include <cstdint>
#include <cstring>
#include <limits>

namespace reprise::detail {
namespace {

/// Without the sign, infinity has the bits kInfinity, and NaN has more. Bits is signed, because
/// vectors of the least instruction set compare no other integers.
template <class Bits, Bits kInfinity>
NotFinite find(std::span<const std::byte> values) noexcept {
  constexpr Bits kWithoutSign = std::numeric_limits<Bits>::max();
  const std::size_t count = values.size() / sizeof(Bits);
  const auto bits_at = [values](std::size_t i) {
    Bits bits = 0;
    std::memcpy(&bits, values.data() + i * sizeof(bits), sizeof(bits));
    return bits;
  };
  const auto not_finite = [&](std::size_t i) { return (bits_at(i) & kWithoutSign) >= kInfinity; };
  // Every value is compared, without an early exit, so that the loop compiles to vectors.
  Bits found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    found |= static_cast<Bits>(not_finite(i));
  }
  if (found == 0) {
    return {};
  }
  std::size_t i = 0;
  while (!not_finite(i)) {
    ++i;
  }
  const bool nan = (bits_at(i) & kWithoutSign) != kInfinity;
  return {i, nan ? "nan" : bits_at(i) < 0 ? "-inf" : "inf"};
}

}  // namespace

NotFinite find_not_finite(DType dtype, std::span<const std::byte> values) noexcept {
  switch (dtype) {
    case DType::F16:
      return find<std::int16_t, 0x7c00>(values);
    case DType::BF16:
      return find<std::int16_t, 0x7f80>(values);
    case DType::F32:
      return find<std::int32_t, 0x7f800000>(values);
    case DType::F64:
      return find<std::int64_t, 0x7ff0000000000000>(values);
    default:
      return {};
  }
}

}  // namespace reprise::detail
