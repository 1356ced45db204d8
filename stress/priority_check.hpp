#pragma once

#include "drawn.hpp"
#include "episode.hpp"
#include "findings.hpp"
#include "options.hpp"
#include "order_check.hpp"
#include "shadow.hpp"
#include "strategies.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stress {

/// alpha and beta; epsilon is 0 where priorities are checked, so that 0 is never
/// drawn, and that of the workload definitions otherwise.
inline constexpr float kAlpha = 0.6F;
inline constexpr float kBeta = 0.4F;
/// Exponents where they change, the first one first; so near each other that a weight is still good
/// enough to judge when it has been converted a thousand times.
inline constexpr std::array kAlphas{kAlpha, 0.4F, 0.9F};
[[nodiscard]] constexpr float epsilon_of(Checks checks) noexcept {
  return checks == Checks::All ? 0.0F : 1e-4F;
}

/// Judges the probabilities of a batch.
///
/// Within the draws of one batch from one shard, P(i) / weight(i) is the same for all items: so an
/// item whose weight is not what its own last priority makes of it stands out, whichever update
/// went astray or got lost. Where a batch is of one moment, that holds for all of it. Of draws
/// without replacement -log(1 - n * P(i)) stands for P(i).
///
/// One thread at a time.
class PriorityCheck {
 public:
  PriorityCheck(const Options& options, const Strategies& strategies, std::size_t places_per_shard,
                Findings& findings);

  /// `shadows`: one for each learner. `me`: only items of this learner's are known for sure, since
  /// others may just be updating theirs; none: everybody stands still. `exponent`: of kAlphas, the
  /// one in force; none: any, another for each run of draws under one lock.
  void check(const Drawn& drawn, std::span<const Judged> judged, std::span<const Shadow> shadows,
             std::optional<std::size_t> me, std::optional<std::size_t> exponent);

 private:
  using Level = std::optional<std::uint32_t>;

  /// Level that the item has for sure.
  [[nodiscard]] Level known_level(std::uint64_t key, const Judged& judged,
                                  std::span<const Shadow> shadows,
                                  std::optional<std::size_t> me) const;
  /// Probabilities and importance weights are numbers that they can be.
  void check_range(const Drawn& drawn);
  /// Probabilities of a selector that draws by weight.
  void check_weights(const Drawn& drawn, std::optional<std::size_t> exponent);
  /// Probabilities of a selector that goes by rank: while nobody changes priorities.
  void check_ranks(const Drawn& drawn);
  /// Draws under one lock: items [begin, end).
  struct Run {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  void check_run(const Drawn& drawn, Run run, std::optional<std::size_t> exponent);
  void check_zeros(const Drawn& drawn, Run run);
  /// Items of a run whose probabilities are not in proportion to the weights of an exponent.
  struct Misfits {
    std::size_t count = 0;
    std::string first;
  };
  [[nodiscard]] Misfits misfits(const Drawn& drawn, Run run, std::size_t exponent) const;
  void check_importance(const Drawn& drawn);

  const std::size_t learners_;
  const std::uint32_t reach_;
  const Drawing drawing_;
  const std::size_t places_per_shard_;
  const Finding finding_;  ///< What a wrong priority counts as.
  Findings& findings_;
  /// Per exponent.
  std::array<std::array<double, kTopLevel + 1>, kAlphas.size()> weight_of_level_{};
  std::vector<std::size_t> by_level_;  ///< Items of this batch in the order of their levels.
  std::vector<Level> levels_;          ///< Of the items of this batch.
  OrderCheck order_;
};

}  // namespace stress
