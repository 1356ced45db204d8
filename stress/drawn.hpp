#pragma once

#include "episode.hpp"
#include "row.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace stress {

/// One value per item, so many bytes apart.
template <class T>
struct Strided {
  const std::byte* base = nullptr;
  std::size_t stride = sizeof(T);

  [[nodiscard]] T operator[](std::size_t i) const noexcept {
    T value;
    std::memcpy(&value, base + i * stride, sizeof value);
    return value;
  }
};

/// What came of a step.
enum class Took : std::uint8_t {
  Taken,
  Held,  ///< It found no room, and is to be committed again.
  Closed,
};

/// What came of asking for a batch.
enum class Got : std::uint8_t { Batch, Nothing, Closed };

/// A batch, whoever it comes from.
struct Drawn {
  std::size_t size = 0;
  std::size_t observation_bytes = 0;
  std::size_t frame_stack = 0;
  /// Of a sequence: its observations lie where those of a stack do, and it has as many actions and
  /// rewards. 0: items are transitions.
  std::size_t steps = 0;
  Strided<std::uint8_t> now;  ///< First byte of each stack.
  Strided<std::uint8_t> next;
  Strided<std::int32_t> actions;
  Strided<float> rewards;  ///< Of sequences alone.
  Strided<float> returns;  ///< Of transitions alone.
  Strided<float> discounts;
  /// Low half: place; high half: what names the item in that place.
  std::span<const std::uint64_t> keys;
  std::span<const double> probabilities;
  /// The largest is 1 if `by_batch`.
  std::span<const float> weights;
  bool by_batch = false;
  bool without_replacement = false;
  bool of_one_moment = false;  ///< All items were drawn under the locks of all shards.
  /// Empty where the implementation does not tell.
  std::span<const std::uint64_t> episode_ids;
  std::span<const std::uint64_t> positions;
  std::span<const std::uint32_t> lengths;

  [[nodiscard]] std::span<const std::uint8_t> frame(const Strided<std::uint8_t>& stacks,
                                                    std::size_t item, std::size_t f) const {
    const std::byte* const first = stacks.base + item * stacks.stride + f * observation_bytes;
    return {reinterpret_cast<const std::uint8_t*>(first), observation_bytes};
  }
};

/// What a drawn item says it is.
struct Judged {
  bool legible = false;  ///< Else the rest means nothing.
  Identity id;
  Episode episode;
  std::uint64_t hash = 0;  ///< Of the identity.
};

}  // namespace stress
