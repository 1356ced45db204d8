#pragma once

#include "checks/drawn.hpp"
#include "checks/known_priorities.hpp"
#include "checks/order_check.hpp"
#include "program/findings.hpp"
#include "program/options.hpp"
#include "program/strategies.hpp"
#include "testing/library.hpp"

namespace stress {

/// The exponents that a run with --set-alpha-every uses; each run begins with the first. They are
/// close to each other, so that a weight is accurate enough for the check after a thousand
/// conversions from one exponent to another.
inline constexpr std::array kAlphas{kAlpha, 0.4F, 0.9F};

/// Checks the probabilities of a batch.
///
/// In the draws of one batch from one shard, P(i) / weight(i) is the same for all items. So an item
/// whose weight does not follow from its own last priority is found, whichever update was lost or
/// misdirected. If a batch was drawn at one moment, this holds for the whole batch. For draws
/// without replacement -log(1 - n * P(i)) takes the place of P(i).
///
/// One thread at a time.
class PriorityCheck {
 public:
  PriorityCheck(const Options& options, const Strategies& strategies, std::size_t shards,
                std::size_t slots_per_shard, Findings& findings);

  /// `known` has the priorities of each learner. `learner_index` is the learner that checks: only
  /// priorities of its own items are certain, since other learners may be updating theirs. Without
  /// a value all threads stand still. `exponent` is the index in kAlphas of the exponent in force.
  /// Without a value the exponent is unknown, and may differ between draws under different locks.
  void check(const Drawn& drawn, CheckedItems items, std::span<const KnownPriorities> known,
             std::optional<std::size_t> learner_index, std::optional<std::size_t> exponent);

 private:
  using Level = std::optional<std::uint32_t>;

  /// The level of the item's priority, without a value if that is uncertain.
  [[nodiscard]] Level known_level(reprise::ItemKey key, const CheckedItem& item,
                                  std::span<const KnownPriorities> known,
                                  std::optional<std::size_t> learner_index) const;
  /// Checks that importance weights are positive and finite, and that probabilities are positive
  /// and, but for rounding, at most 1.
  void check_range(const Drawn& drawn);
  /// Checks probabilities of a selector that draws by weight.
  void check_weights(const Drawn& drawn, std::optional<std::size_t> exponent);
  /// Checks probabilities of a selector that draws by rank, while nobody changes priorities.
  void check_ranks(const Drawn& drawn);
  /// The draws [begin, end) of a batch. Usually they were made under one lock.
  struct Run {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  /// Checks the draws of one call by the runs that were made under one lock each.
  void check_part(const Drawn& drawn, Run part, std::optional<std::size_t> exponent);
  /// `may_be_two_locks`: the shard may have been locked once more for the last draws of the run,
  /// with another total, because a shard that is missing in the call's draws was found empty, and
  /// its draws were made again among the others. That is so in one run of a call at most, so the
  /// check of this run makes it false.
  void check_run(const Drawn& drawn, Run run, std::optional<std::size_t> exponent,
                 bool& may_be_two_locks);
  void check_zeros(const Drawn& drawn, Run run);
  /// Items of a run whose probabilities are not in proportion to the weights of an exponent.
  struct Misfits {
    std::size_t count = 0;
    std::size_t index = 0;  ///< The first of them in the batch, of which `first` tells.
    std::string first;
  };
  [[nodiscard]] Misfits misfits(const Drawn& drawn, Run run, std::size_t exponent) const;
  void check_importance(const Drawn& drawn);
  void check_importance(const Drawn& drawn, Run part);

  const std::size_t learners_;
  const std::uint32_t reach_;
  const DrawRule draw_rule_;
  const std::size_t shards_;
  const std::size_t slots_per_shard_;
  Findings& findings_;
  /// The weight of each level, for each exponent.
  std::array<std::array<double, kTopLevel + 1>, kAlphas.size()> weight_of_level_{};
  std::vector<std::size_t> by_level_;  ///< Items of this batch sorted by level.
  std::vector<Level> levels_;          ///< Levels of the items of this batch.
  OrderCheck order_;
};

}  // namespace stress
