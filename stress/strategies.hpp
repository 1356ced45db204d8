#pragma once

#include <reprise/reprise.hpp>

#include "options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace stress {

/// How a selector draws, as far as its draws can be checked.
enum class Drawing : std::uint8_t {
  Unknown,     ///< Only the rules of all selectors are checked.
  ByPriority,  ///< With probability in proportion to priority^kAlpha.
  Alike,       ///< Every item with the same probability.
  ByRank,      ///< The higher the priority, the more often.
  Oldest,      ///< The item that was decided first comes first.
  Youngest,
  Highest,  ///< The highest priority comes first.
  Lowest,
};

[[nodiscard]] constexpr bool in_order(Drawing drawing) noexcept {
  return drawing >= Drawing::Oldest;
}

/// The strategies that the options name, ready for a buffer.
struct Strategies {
  reprise::Selector selector;
  Drawing drawing;
  reprise::Remover remover;
  reprise::Window window;
  reprise::RateLimiter limiter;
  /// None: each batch is stratified or independent, at random.
  std::optional<reprise::Draws> draws;
  float fresh = 0.0F;      ///< Share of each batch, if the draws allow one.
  bool mixed = false;      ///< Whether batches have two parts, if the draws allow them.
  bool hindsight = false;  ///< Whether items get other goals, if the window allows it.

  /// Whether the limiter may hold writers until learners draw.
  [[nodiscard]] bool hold_writers() const noexcept {
    return std::holds_alternative<reprise::SampleToInsertRatio>(limiter) ||
           std::holds_alternative<reprise::Queue>(limiter);
  }
};

/// Throws `std::invalid_argument` for an unknown name, and lists the known ones.
[[nodiscard]] Strategies strategies_of(const Options& options);

/// Names of the strategies that an option takes, separated by commas.
[[nodiscard]] std::string selector_names();
[[nodiscard]] std::string remover_names();
[[nodiscard]] std::string limiter_names();

}  // namespace stress
