#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

namespace reprise::record {

/// Bytes to write, and room for bytes to be read.
using Bytes = std::span<const std::byte>;
using Room = std::span<std::byte>;

static_assert(std::endian::native == std::endian::little,
              "numbers are written as they lie in memory, little-endian");

/// Cuts pieces off a list of parts, which are `Bytes` or `Room`, one part after the other.
template <class Part>
class Pieces {
 public:
  explicit Pieces(std::span<const Part> parts) noexcept : parts_(parts) {}

  /// The next bytes of one part, at most so many; empty only at the end.
  [[nodiscard]] Part next(std::size_t most) noexcept {
    while (rest_.empty() && !parts_.empty()) {
      rest_ = parts_.front();
      parts_ = parts_.subspan(1);
    }
    const Part piece = rest_.first(std::min(rest_.size(), most));
    rest_ = rest_.subspan(piece.size());
    return piece;
  }

 private:
  std::span<const Part> parts_;
  Part rest_;
};

}  // namespace reprise::record
