#include "episodes.hpp"

#include <cstdint>

namespace reprise::test {

/// Chooses the ending by `roll`, a random number from 0 to 15.
Ending Episodes::ending(std::uint64_t roll) const noexcept {
  constexpr Ending kUsual[] = {Ending::Terminated, Ending::Truncated};
  if (!faulty_) {
    return roll == 15 ? Ending::Restarted : kUsual[roll % 2];
  }
  constexpr Ending kFaulty[] = {Ending::Restarted, Ending::Restarted, Ending::WriterDestroyed,
                                Ending::Throws};
  return roll < 8 ? kUsual[roll % 2] : kFaulty[roll % 4];
}

std::optional<StepName> Episodes::step_before(StepName step, std::uint32_t back) const noexcept {
  for (; back > step.position; step.position = episode(step.writer, step.episode).length) {
    if (step.episode-- == 0) {
      return std::nullopt;
    }
    back -= step.position;
  }
  return step.after(-std::int64_t{back});
}

Episode Episodes::episode(std::uint32_t writer, std::uint32_t number) const noexcept {
  Rng rng(mix(seed_ ^ (std::uint64_t{writer} << 32U | number) ^ std::uint64_t{round_} << 20U));
  Episode episode;
  const std::size_t kind = rng.below(10);
  episode.length = static_cast<std::uint32_t>(kind == 0  ? 1
                                              : kind < 4 ? rng.between(2, 9)
                                                         : rng.between(10, 309));
  episode.ending = ending(rng.below(16));
  episode.explicit_priorities = rng.one_in(2);
  episode.throw_at = faulty_ && rng.one_in(4)
                         ? static_cast<std::uint32_t>(rng.below(episode.length))
                         : episode.length;
  return episode;
}

}  // namespace reprise::test
