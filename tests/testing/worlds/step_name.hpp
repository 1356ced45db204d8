#pragma once

#include "testing/fixtures/rng.hpp"
#include "testing/library.hpp"

namespace reprise::test {

/// Names a step of an episode, and the observation before the step. The values in its row follow
/// from the name.
struct StepName {
  std::uint32_t writer = 0;
  std::uint32_t episode = 0;  ///< Number of the episode of this writer, from 0.
  /// Position in the episode. The position of the final observation is the episode's length.
  std::uint32_t position = 0;
  std::uint32_t round = 0;  ///< Number of the buffer that the step was written to.
  std::uint64_t episode_id = 0;

  friend bool operator==(const StepName&, const StepName&) = default;

  /// A bit in the writer number of a guest process. Such a writer counts its own episodes, so the
  /// episode ids in its names are not the buffer's.
  static constexpr std::uint32_t kOfGuest = std::uint32_t{1} << 31U;
  [[nodiscard]] bool is_of_guest() const noexcept { return (writer & kOfGuest) != 0; }

  /// The name of the step that comes `steps` after this one, or before it if negative.
  [[nodiscard]] StepName after(std::int64_t steps) const noexcept {
    StepName name = *this;
    name.position = static_cast<std::uint32_t>(name.position + steps);
    return name;
  }

  [[nodiscard]] std::uint64_t hash() const noexcept {
    return mix(std::uint64_t{writer} << 32U | episode) ^
           mix((std::uint64_t{round} << 32U | position) + 0x51ED270B27A30133U);
  }

  [[nodiscard]] std::string words() const {
    return "writer " + std::to_string(writer) + ", episode " + std::to_string(episode) + " (id " +
           std::to_string(episode_id) + "), position " + std::to_string(position) + ", round " +
           std::to_string(round);
  }
};

}  // namespace reprise::test
