#pragma once

#include "scenario.hpp"

#include <cstddef>
#include <cstdint>

namespace reprise::model {

/// The size of a search.
struct Effort {
  std::uint64_t random_runs;      ///< Random runs of each scenario in all.
  std::uint64_t exhaustive_runs;  ///< Exhaustive runs of each small scenario, at most.
  std::uint64_t mutant_runs;      ///< Random runs of each scenario that a mutant could fail.
};

/// The counts that the checks print.
struct Tally {
  std::size_t scenarios = 0;
  std::size_t order_mutants = 0;
  std::size_t rule_mutants = 0;
  std::size_t wrong = 0;  ///< Scenarios that failed and mutants that survived.
};

/// Runs scenarios begin to end with the memory orders and rules of the source: none may fail.
void check_scenarios(const Scenarios& scenarios, std::size_t begin, std::size_t end,
                     const Effort& effort, Tally& tally);

/// Weakens each memory order by one step: some scenario has to fail.
void check_orders(const Scenarios& scenarios, const Effort& effort, Tally& tally);

/// Breaks each rule: some scenario has to fail.
void check_rules(const Scenarios& scenarios, const Effort& effort, Tally& tally);

}  // namespace reprise::model
