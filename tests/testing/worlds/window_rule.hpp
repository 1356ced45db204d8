#pragma once

#include "testing/library.hpp"

namespace reprise::test {

/// Whether an episode is open, and how it ended. `CutOff`: no commit ended it, so reprise truncated
/// it.
enum class EpisodeState : std::uint8_t { Open, Ended, CutOff };

/// The items of an episode or of a writer's stream, by the documentation of `reprise::Window`.
/// Thread-safe.
class WindowRule {
 public:
  explicit WindowRule(const Window& window) : window_(window) {}

  [[nodiscard]] const Window& window() const noexcept { return window_; }
  /// Null if the items are transitions.
  [[nodiscard]] const Sequences* sequences() const noexcept {
    return std::get_if<Sequences>(&window_);
  }
  /// The number of steps of an item that is not cut short. If an item begins at position p of an
  /// open episode, the commit that makes the episode p + full_length() steps long decides the item.
  [[nodiscard]] std::uint32_t full_length() const noexcept;

  /// Whether items are of streams. Then the functions below take steps and positions of the stream,
  /// which never ends.
  [[nodiscard]] bool streams() const noexcept {
    return sequences() != nullptr && sequences()->end == SequenceEnd::Continue;
  }

  /// The number of undecided steps in an open episode of `steps` committed steps.
  [[nodiscard]] std::uint32_t undecided_steps(std::uint32_t steps) const noexcept {
    return steps < full_length() ? steps : full_length() - 1;
  }

  /// The number of steps of the item that begins at this position, in an episode of `steps`
  /// committed steps; 0 if no item begins there, or if it is not decided yet.
  [[nodiscard]] std::uint32_t length_at(std::uint64_t position, std::uint64_t steps,
                                        EpisodeState state) const noexcept;

  /// The length of each item of an episode, by the position of its first step.
  [[nodiscard]] std::map<std::uint64_t, std::uint32_t> items(std::uint64_t steps,
                                                             EpisodeState state) const;

  /// Calls `each` with the first step of each item that a commit decides, oldest first. After the
  /// commit the episode has `steps` steps, and ends if `ends`.
  template <class Each>
  void each_decided(std::uint32_t steps, bool ends, Each each) const {
    const EpisodeState state = ends ? EpisodeState::Ended : EpisodeState::Open;
    const std::uint32_t first = steps >= full_length() ? steps - full_length() : 0;
    for (std::uint32_t p = first; p < (ends ? steps : first + 1); ++p) {
      if (length_at(p, steps, state) != 0) {
        each(p);
      }
    }
  }

 private:
  Window window_;
};

}  // namespace reprise::test
