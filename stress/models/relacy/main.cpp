// Checks the lock-free protocol with Relacy, a simulator of the C++ memory model. Scenarios of two
// to four threads run the library's own templates: small ones in every schedule, and all in many
// random schedules. A load may return every old value that the memory orders allow. Then each
// memory order is weakened and each rule broken, one at a time, and some scenario has to fail.

#include "hunt.hpp"
#include "rules.hpp"
#include "scenario.hpp"
#include "sites.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using namespace reprise::model;

constexpr const char* kUsage =
    "usage: reprise-relacy [--quick | --long | --list]\n"
    "  --quick  a minute; the default\n"
    "  --long   at least 100 million random runs per family of scenarios\n"
    "  --list   names scenarios and rules, runs nothing\n";

constexpr Effort kQuick{
    .random_runs = 100'000, .exhaustive_runs = 5'000'000, .mutant_runs = 20'000};
constexpr std::uint64_t kLongRunsPerFamily = 100'000'000;

Scenarios all_scenarios() {
  Scenarios scenarios;
  add_doorbell(scenarios);
  add_lists(scenarios);
  add_pins(scenarios);
  add_lifetime(scenarios);
  add_handover(scenarios);
  add_sleep(scenarios);
  add_gate(scenarios);
  add_queue(scenarios);
  add_order(scenarios);
  add_flags(scenarios);
  add_versions(scenarios);
  add_ring(scenarios);
  return scenarios;
}

void list(const Scenarios& scenarios) {
  for (const Scenario& scenario : scenarios) {
    std::printf("%-10s %s%s\n", scenario.family.c_str(), scenario.name.c_str(),
                scenario.exhaustively != nullptr ? " (exhaustive)" : "");
  }
  for (const RuleMutant& mutant : kRuleMutants) {
    std::printf("%-10s %s\n", "rule", mutant.broken);
  }
}

/// Divides the runs of each family of scenarios evenly among its members.
void check_long(const Scenarios& scenarios, Tally& tally) {
  for (std::size_t begin = 0; begin < scenarios.size();) {
    std::size_t end = begin;
    while (end < scenarios.size() && scenarios[end].family == scenarios[begin].family) {
      ++end;
    }
    Effort effort = kQuick;
    effort.random_runs = kLongRunsPerFamily / (end - begin) + 1;
    check_scenarios(scenarios, begin, end, effort, tally);
    begin = end;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Scenarios scenarios = all_scenarios();
  const char* const mode = argc < 2 ? "--quick" : argv[1];
  if (argc > 2 || (std::strcmp(mode, "--quick") != 0 && std::strcmp(mode, "--long") != 0 &&
                   std::strcmp(mode, "--list") != 0)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (std::strcmp(mode, "--list") == 0) {
    list(scenarios);
    return EXIT_SUCCESS;
  }
  Tally tally;
  if (std::strcmp(mode, "--long") == 0) {
    check_long(scenarios, tally);
  } else {
    check_scenarios(scenarios, 0, scenarios.size(), kQuick, tally);
  }
  check_orders(scenarios, kQuick, tally);
  check_rules(scenarios, kQuick, tally);
  if (tally.wrong != 0) {
    std::printf("relacy: %zu wrong\n", tally.wrong);
    return EXIT_FAILURE;
  }
  std::printf("relacy: %zu scenarios, %zu order mutants, %zu rule mutants, all killed\n",
              tally.scenarios, tally.order_mutants, tally.rule_mutants);
  return EXIT_SUCCESS;
}
