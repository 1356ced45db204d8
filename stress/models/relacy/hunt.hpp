#pragma once

#include "scenario.hpp"

#include <cstddef>
#include <cstdint>

namespace reprise::model {

/// The number of runs of a search.
struct Effort {
  std::uint64_t random_runs;      ///< Random runs of each scenario.
  std::uint64_t exhaustive_runs;  ///< The most exhaustive runs of each small scenario.
  std::uint64_t mutant_runs;      ///< Random runs of each scenario that may kill a mutant.
};

/// The counts that the checks print.
struct Tally {
  std::size_t scenarios = 0;
  std::size_t order_mutants = 0;
  std::size_t rule_mutants = 0;
  std::size_t wrong = 0;  ///< Scenarios that failed and mutants that survived.
};

/// Runs the scenarios [begin, end) without a mutant; no scenario may fail.
void check_scenarios(const Scenarios& scenarios, std::size_t begin, std::size_t end,
                     const Effort& effort, Tally& tally);

/// Weakens each memory order by one step; some scenario has to fail.
void check_orders(const Scenarios& scenarios, const Effort& effort, Tally& tally);

/// Breaks each rule; some scenario has to fail.
void check_rules(const Scenarios& scenarios, const Effort& effort, Tally& tally);

}  // namespace reprise::model
