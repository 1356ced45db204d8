#include "episode.hpp"

#include "row.hpp"

#include <cstdint>

namespace stress {

/// `die`: 0 to 15.
Ending World::ending(std::uint64_t die) const noexcept {
  constexpr Ending kUsual[] = {Ending::Terminated, Ending::Truncated};
  if (!churn_) {
    return die == 15 ? Ending::BegunAnew : kUsual[die % 2];
  }
  constexpr Ending kRough[] = {Ending::BegunAnew, Ending::BegunAnew, Ending::WriterDestroyed,
                               Ending::Throws};
  return die < 8 ? kUsual[die % 2] : kRough[die % 4];
}

Episode World::episode(std::uint32_t writer, std::uint32_t number) const noexcept {
  Random random(seed_ ^ (std::uint64_t{writer} << 32U | number) ^ std::uint64_t{round_} << 20U);
  Episode episode;
  const std::uint64_t kind = random.below(10);
  episode.length = static_cast<std::uint32_t>(kind == 0  ? 1
                                              : kind < 4 ? 2 + random.below(8)
                                                         : 10 + random.below(300));
  episode.ending = ending(random.below(16));
  episode.explicit_priorities = random.one_in(2);
  episode.stumble = churn_ && random.one_in(4)
                        ? static_cast<std::uint32_t>(random.below(episode.length))
                        : episode.length;
  return episode;
}

}  // namespace stress
