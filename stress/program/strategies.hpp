#pragma once

#include "checks/testing.hpp"
#include "program/options.hpp"
#include "testing/library.hpp"

namespace stress {

/// The exponents alpha of priorities and beta of importance weights.
inline constexpr float kAlpha = 0.6F;
inline constexpr float kBeta = 0.4F;
/// Discount per step in every run.
inline constexpr float kDiscount = 0.99F;

/// The strategies that the options name, ready for a buffer.
struct Strategies {
  reprise::Selector selector;
  DrawRule draw_rule;
  reprise::Remover remover;
  reprise::Window window;
  reprise::RateLimiter limiter;
  /// How batches are drawn. Without a value each batch is stratified or independent at random.
  std::optional<reprise::Draws> draws;
  float fresh = 0.0F;      ///< Share of fresh items in each batch; 0 if the draws allow none.
  bool mixed = false;      ///< Whether batches have two parts.
  bool hindsight = false;  ///< Whether items are given hindsight goals.

  /// Whether the limiter may hold writers until learners draw.
  [[nodiscard]] bool may_hold_writers() const noexcept {
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
