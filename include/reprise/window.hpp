#pragma once

#include <cstdint>
#include <variant>

namespace reprise {

/// How a step ends. `Terminated` and `Truncated` are never merged into one flag.
enum class End : std::uint8_t {
  Continue,    ///< The episode goes on; next becomes now.
  Terminated,  ///< The environment ended it: the value of what follows is 0.
  Truncated,   ///< A limit cut it off: bootstrap from the final observation.
};

/// What a frame stack shows of the time before the first step of an episode.
enum class StackStart : std::uint8_t {
  RepeatFirst,  ///< The first frame again.
  Zeros,        ///< Zero bytes.
};

/// One item per step t: the stacked observation at t, the step's columns, the n-step return
/// R = sum over k < length of discount^k * reward[t + k], and the stacked observation at
/// t + length with discount^length to multiply its value by (0 after a termination).
///
/// The length is n_step, or less where the episode ends sooner (Sutton, 1988; multi-step DQN as
/// in Hessel et al., "Rainbow", 2018). With a `Discount` field, discount is multiplied by that
/// field's value at each step.
struct Transitions {
  std::uint32_t n_step = 1;       ///< Steps in a return, 1 to 65535.
  float discount = 0.99F;         ///< Gamma per step, in [0, 1].
  std::uint32_t frame_stack = 1;  ///< Observations stacked, oldest first, 1 to 65535.
  StackStart stack_start = StackStart::RepeatFirst;

  friend bool operator==(const Transitions&, const Transitions&) = default;
};

using Window = std::variant<Transitions>;

}  // namespace reprise
