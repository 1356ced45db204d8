#pragma once

#include "row.hpp"

#include <cstdint>
#include <optional>

namespace stress {

/// How an episode ends. With the last three no commit ends it, so reprise has to truncate it.
enum class Ending : std::uint8_t { Terminated, Truncated, BegunAnew, WriterDestroyed, Throws };

/// The properties of an episode, computed only from its identity, so that a sampled window can be
/// judged without asking its writer.
struct Episode {
  std::uint32_t length = 1;  ///< Committed steps.
  Ending ending = Ending::Terminated;
  /// `commit` brings the priorities of the items that it decides.
  bool explicit_priorities = false;
  /// The simulator throws before the commit of this step, which is then written again; `length` or
  /// more: it never throws.
  std::uint32_t stumble = 0;

  [[nodiscard]] bool ends_by_commit() const noexcept {
    return ending == Ending::Terminated || ending == Ending::Truncated;
  }
};

/// The columns of one step.
struct StepColumns {
  std::int32_t action = 0;
  float reward = 0.0F;
};

/// The laws of the simulated world, equal in all threads.
class World {
 public:
  World(std::uint64_t seed, bool churn, std::uint32_t round) noexcept
      : seed_(mix(seed)), churn_(churn), round_(round) {}

  [[nodiscard]] std::uint32_t round() const noexcept { return round_; }
  [[nodiscard]] Episode episode(std::uint32_t writer, std::uint32_t number) const noexcept;

  [[nodiscard]] static StepColumns columns(std::uint32_t writer, std::uint32_t episode,
                                           std::uint32_t position) noexcept {
    const std::uint64_t h =
        mix((std::uint64_t{writer} << 32U | episode) * 0xD1342543DE82EF95U + position);
    // Multiples of 1/8 in [-16, 16), so that neighbours that change places change the return.
    return {static_cast<std::int32_t>(h), static_cast<float>(h >> 56U) / 8.0F - 16.0F};
  }

  /// The only one of `learners` learners that updates this item.
  [[nodiscard]] static std::size_t owner(std::uint64_t identity_hash,
                                         std::size_t learners) noexcept {
    return static_cast<std::size_t>((identity_hash >> 40U) % learners);
  }

 private:
  [[nodiscard]] Ending ending(std::uint64_t die) const noexcept;

  std::uint64_t seed_;
  bool churn_;
  std::uint32_t round_;
};

/// Priorities are level / kTopLevel; level 0 is priority 0.
inline constexpr std::uint32_t kTopLevel = 255;

[[nodiscard]] constexpr float priority_of(std::uint32_t level) noexcept {
  return static_cast<float>(level) / static_cast<float>(kTopLevel);
}

/// The level that `commit` gives an item of an episode with explicit priorities.
[[nodiscard]] inline std::uint32_t first_level(const Identity& id) noexcept {
  return 1 + static_cast<std::uint32_t>(id.hash() % kTopLevel);
}

/// `first_level` if a commit with explicit priorities decides the item. Other items get the
/// selector's initial weight.
[[nodiscard]] inline std::optional<std::uint32_t> known_first_level(const Identity& id,
                                                                    const Episode& episode,
                                                                    std::uint32_t reach) noexcept {
  const bool by_commit = episode.ends_by_commit() || id.position + reach <= episode.length;
  return episode.explicit_priorities && by_commit ? std::optional(first_level(id)) : std::nullopt;
}

/// Few items ever get priority 0, so that a buffer without new steps keeps items to draw.
[[nodiscard]] inline bool may_get_zero(std::uint64_t identity_hash) noexcept {
  return (identity_hash >> 20U) % 32 == 0;
}

}  // namespace stress
