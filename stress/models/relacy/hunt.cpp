#include "hunt.hpp"

#include "rules.hpp"
#include "sites.hpp"

#include <cstdio>
#include <optional>
#include <string>

namespace reprise::model {
namespace {

std::string title(const Scenario& scenario) {
  return scenario.family + ": " + scenario.name;
}

struct Kill {
  std::size_t scenario;
  std::uint64_t run;
  std::string how;
};

/// Searches for a scenario that fails with the current mutant. Random runs find most mutants
/// quickly, so they come first; exhaustive searches follow. `candidates` has a bit for each
/// scenario that can meet the mutant.
std::optional<Kill> hunt(const Scenarios& scenarios, std::uint64_t candidates,
                         const Effort& effort) {
  for (const bool exhaustive : {false, true}) {
    for (std::size_t i = 0; i < scenarios.size(); ++i) {
      if ((candidates >> i & 1) == 0 || (exhaustive && scenarios[i].exhaustively == nullptr)) {
        continue;
      }
      enter_scenario(i);
      const Outcome outcome = exhaustive ? scenarios[i].exhaustively(effort.exhaustive_runs)
                                         : scenarios[i].randomly(effort.mutant_runs);
      if (!outcome.passed) {
        return Kill{i, outcome.runs, outcome.failure};
      }
    }
  }
  return std::nullopt;
}

/// Prints one line for a mutant; returns whether it was killed.
bool report(const char* kind, const std::string& mutant, const std::optional<Kill>& kill,
            const Scenarios& scenarios) {
  if (kill) {
    std::printf("%-5s killed  %-78s  %s, run %llu: %s\n", kind, mutant.c_str(),
                title(scenarios[kill->scenario]).c_str(),
                static_cast<unsigned long long>(kill->run), kill->how.c_str());
  } else {
    std::printf("%-5s SURVIVED  %s\n", kind, mutant.c_str());
  }
  std::fflush(stdout);
  return kill.has_value();
}

}  // namespace

void check_scenarios(const Scenarios& scenarios, std::size_t begin, std::size_t end,
                     const Effort& effort, Tally& tally) {
  for (std::size_t i = begin; i < end; ++i) {
    const Scenario& scenario = scenarios[i];
    enter_scenario(i);
    Outcome outcome = scenario.randomly(effort.random_runs);
    const std::uint64_t random_runs = outcome.runs;
    std::string exhaustive;
    if (outcome.passed && scenario.exhaustively != nullptr) {
      outcome = scenario.exhaustively(effort.exhaustive_runs);
      exhaustive = std::to_string(outcome.runs) + " are all";
    }
    const char* const verdict = !outcome.passed     ? "FAILED"
                                : !outcome.complete ? "CUT SHORT"
                                                    : "passed";
    ++tally.scenarios;
    tally.wrong += outcome.passed && outcome.complete ? 0 : 1;
    std::printf("%-9s %-9s %-46s %10llu random  %s\n", verdict, scenario.family.c_str(),
                scenario.name.c_str(), static_cast<unsigned long long>(random_runs),
                exhaustive.c_str());
    if (!outcome.passed) {
      std::printf("%s\n", outcome.trace.c_str());
    }
    std::fflush(stdout);
  }
}

void check_orders(const Scenarios& scenarios, const Effort& effort, Tally& tally) {
  for (const OrderMutant& mutant : order_mutants()) {
    set_order_mutant(&mutant);
    const auto kill = hunt(scenarios, sites()[mutant.site].scenarios, effort);
    set_order_mutant(nullptr);
    ++tally.order_mutants;
    tally.wrong += report("order", describe(mutant), kill, scenarios) ? 0 : 1;
  }
}

void check_rules(const Scenarios& scenarios, const Effort& effort, Tally& tally) {
  for (const RuleMutant& mutant : kRuleMutants) {
    broken_rule = mutant.rule;
    const auto kill = hunt(scenarios, ~std::uint64_t{0}, effort);
    broken_rule = Rule::None;
    ++tally.rule_mutants;
    tally.wrong += report("rule", mutant.broken, kill, scenarios) ? 0 : 1;
  }
}

}  // namespace reprise::model
