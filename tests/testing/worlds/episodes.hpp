#pragma once

#include "step_name.hpp"
#include "testing/fixtures/rng.hpp"
#include "testing/library.hpp"
#include "window_rule.hpp"

namespace reprise::test {

/// How an episode ends. In the last three cases no commit ends it, so reprise truncates it.
enum class Ending : std::uint8_t { Terminated, Truncated, Restarted, WriterDestroyed, Throws };

/// The properties of an episode, which follow from its name alone, so that a window can be checked
/// without a record of what was written.
struct Episode {
  std::uint32_t length = 1;  ///< Committed steps.
  Ending ending = Ending::Terminated;
  /// Whether commits give the priorities of the items that they decide.
  bool explicit_priorities = false;
  /// The step before whose commit the simulator throws, after which the step is written again. If
  /// it is at least `length`, the simulator never throws.
  std::uint32_t throw_at = 0;

  [[nodiscard]] bool ends_by_commit() const noexcept {
    return ending == Ending::Terminated || ending == Ending::Truncated;
  }
  [[nodiscard]] EpisodeState state() const noexcept {
    return ends_by_commit() ? EpisodeState::Ended : EpisodeState::CutOff;
  }
  /// The argument of the commit that makes the episode `step` steps long.
  [[nodiscard]] End end_of(std::uint32_t step) const noexcept {
    return step != length || !ends_by_commit() ? End::Continue
           : ending == Ending::Terminated      ? End::Terminated
                                               : End::Truncated;
  }
  /// Whether the episode terminates with the last step of the item of `steps` steps from `position`
  /// on.
  [[nodiscard]] bool terminates(std::uint32_t position, std::uint32_t steps) const noexcept {
    return ending == Ending::Terminated && position + steps == length;
  }
};

/// The episodes of all writers; every thread gets the same ones.
class Episodes {
 public:
  /// If `faulty`, many episodes end without a commit, and simulators throw.
  Episodes(std::uint64_t seed, bool faulty, std::uint32_t round) noexcept
      : seed_(mix(seed)), faulty_(faulty), round_(round) {}

  /// The step that is `back` steps before this one in its writer's stream; no value if episode 0
  /// begins later. The episode id in the result is not set.
  [[nodiscard]] std::optional<StepName> step_before(StepName step,
                                                    std::uint32_t back) const noexcept;

  [[nodiscard]] std::uint32_t round() const noexcept { return round_; }
  [[nodiscard]] Episode episode(std::uint32_t writer, std::uint32_t number) const noexcept;

 private:
  [[nodiscard]] Ending ending(std::uint64_t roll) const noexcept;

  std::uint64_t seed_;
  bool faulty_;
  std::uint32_t round_;
};

}  // namespace reprise::test
