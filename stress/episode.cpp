#include "episode.hpp"

namespace stress {

Episode World::episode(std::uint32_t writer, std::uint32_t number) const noexcept {
  Random random(seed_ ^ (std::uint64_t{writer} << 32U | number) ^ std::uint64_t{round_} << 20U);
  Episode episode;
  const std::uint64_t kind = random.below(10);
  episode.length = static_cast<std::uint32_t>(kind == 0  ? 1
                                              : kind < 4 ? 2 + random.below(8)
                                                         : 10 + random.below(300));
  const std::uint64_t ending = random.below(16);
  if (churn_) {
    episode.ending = ending < 4    ? Ending::Terminated
                     : ending < 8  ? Ending::Truncated
                     : ending < 12 ? Ending::BegunAnew
                     : ending < 14 ? Ending::WriterDestroyed
                                   : Ending::Throws;
  } else {
    episode.ending = ending < 8    ? Ending::Terminated
                     : ending < 15 ? Ending::Truncated
                                   : Ending::BegunAnew;
  }
  episode.explicit_priorities = priorities_ && random.one_in(2);
  episode.stumble = churn_ && random.one_in(4)
                        ? static_cast<std::uint32_t>(random.below(episode.length))
                        : episode.length;
  return episode;
}

}  // namespace stress
