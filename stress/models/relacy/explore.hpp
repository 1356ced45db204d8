#pragma once

#include "relacy_sync.hpp"
#include "rules.hpp"
#include "scenario.hpp"

#include <ostream>
#include <string>

namespace reprise::model {

/// Number of runs left before the current search stops.
inline std::uint64_t runs_left = 0;

/// A scenario. In each run `prepare()` comes first, then `thread(index)` in each thread, then
/// `after()`.
template <class Derived, unsigned Threads>
struct Test : rl::test_suite<Derived, Threads> {
  void before() {
    if (runs_left == 0) {  // Relacy's exhaustive search does not end at a number of runs.
      rl::ctx().rl_until("bound", info(Where::current()));
    }
    --runs_left;
    static_cast<Derived*>(this)->prepare();
  }
  void prepare() {}
};

/// Runs a search. If a run fails, it is repeated to print its steps.
template <class Derived, class Scheduler>
Outcome search(rl::test_params& params, std::uint64_t runs) {
  rl::ostringstream trace;  // Declared first, because it allocates, which Relacy must not see.
  std::ostream nothing(nullptr);
  params.iteration_count = runs;
  params.output_stream = &trace;
  params.progress_stream = &nothing;
  runs_left = runs + 1;
  rl::ostringstream failed_at;
  Outcome outcome;
  const rl::test_result_e result = rl::run_test<Derived, Scheduler>(params, failed_at, false);
  outcome.runs = params.stop_iteration;
  outcome.complete = result == rl::test_result_success;
  outcome.passed = outcome.complete || result == rl::test_result_until_condition_hit;
  if (!outcome.passed) {
    params.initial_state = failed_at.str();
    params.collect_history = true;
    rl::run_test<Derived, Scheduler>(params, failed_at, true);
    outcome.trace = trace.str().c_str();
    outcome.failure = outcome.trace.substr(0, outcome.trace.find('\n'));
  }
  return outcome;
}

template <class Derived>
Outcome explore_randomly(std::uint64_t runs) {
  rl::test_params params;
  params.search_type = rl::random_scheduler_type;
  return search<Derived, rl::random_scheduler<Derived::params::thread_count>>(params, runs);
}

template <class Derived>
Outcome explore_all(std::uint64_t runs) {
  rl::test_params params;
  params.search_type = rl::fair_full_search_scheduler_type;
  return search<Derived, rl::full_search_scheduler<Derived::params::thread_count>>(params, runs);
}

/// Makes a scenario with so few schedules that an exhaustive search can run all of them.
template <class Derived>
Scenario small(const char* family, const char* name) {
  return {family, name, &explore_randomly<Derived>, &explore_all<Derived>};
}

/// Makes a scenario with too many schedules for that, which is searched in random runs alone.
template <class Derived>
Scenario large(const char* family, const char* name) {
  return {family, name, &explore_randomly<Derived>, nullptr};
}

}  // namespace reprise::model
