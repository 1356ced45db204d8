#pragma once

#include "episode.hpp"
#include "row.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace stress {

/// One value per item, at a fixed distance in bytes.
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

/// The result of a step.
enum class Took : std::uint8_t {
  Taken,
  Held,  ///< The step found no room and has to be committed again.
  Closed,
};

/// The result of asking for a batch.
enum class Got : std::uint8_t { Batch, Nothing, Closed };

/// A batch of either implementation.
struct Drawn {
  std::size_t size = 0;
  std::size_t observation_bytes = 0;
  std::size_t frame_stack = 0;
  /// Steps of a sequence: its observations lie as those of a stack do, and it has as many actions
  /// and rewards. 0: items are transitions.
  std::size_t steps = 0;
  Strided<std::uint8_t> now;  ///< First byte of each stack.
  Strided<std::uint8_t> next;
  Strided<std::int32_t> actions;
  Strided<float> rewards;  ///< Only for sequences.
  Strided<float> returns;  ///< Only for transitions.
  Strided<float> discounts;
  /// Low half: place; high half: what identifies the item in that place.
  std::span<const std::uint64_t> keys;
  std::span<const double> probabilities;
  /// The largest is 1 if `by_batch`.
  std::span<const float> weights;
  bool by_batch = false;
  bool without_replacement = false;
  bool of_one_moment = false;  ///< All items were drawn under the locks of all shards.
  /// Empty if the implementation does not report them.
  std::span<const std::uint64_t> episode_ids;
  std::span<const std::uint64_t> positions;
  std::span<const std::uint32_t> lengths;

  [[nodiscard]] std::span<const std::uint8_t> frame(const Strided<std::uint8_t>& stacks,
                                                    std::size_t item, std::size_t f) const {
    const std::byte* const first = stacks.base + item * stacks.stride + f * observation_bytes;
    return {reinterpret_cast<const std::uint8_t*>(first), observation_bytes};
  }
};

/// The identity that a drawn item claims.
struct Judged {
  bool legible = false;  ///< False: the other members have no meaning.
  Identity id;
  Episode episode;
  std::uint64_t hash = 0;  ///< Hash of the identity.
};

}  // namespace stress
