#include "program/report.hpp"

#include <cstdio>

namespace stress {
namespace {

using Number = unsigned long long;

void print_truth(const Tally& tally) {
  const reprise::Stats& stats = tally.stats;
  std::printf("steps     %llu committed = %llu resident + %llu evicted + %llu pending\n",
              static_cast<Number>(stats.committed_steps), static_cast<Number>(stats.resident_steps),
              static_cast<Number>(stats.evicted_steps), static_cast<Number>(stats.pending_steps));
  std::printf("items     %llu sampled and checked, %llu updates applied, %llu stale\n",
              static_cast<Number>(stats.sampled_items), static_cast<Number>(stats.applied_updates),
              static_cast<Number>(stats.stale_updates));
  std::printf("checks    account exact at %llu quiescent points of %llu buffers",
              static_cast<Number>(tally.quiescent_points), static_cast<Number>(tally.rounds));
  if (tally.closes != 0) {
    std::printf("; %llu closed under load, the slowest gone after %.1f ms",
                static_cast<Number>(tally.closes), tally.longest_close_ms);
  }
  const Residence& residence = tally.residence;
  std::printf(
      "\nages      oldest item drawn %.2f capacities, at the end of a buffer %.2f; %.2f%% of "
      "the capacity in use once full\n",
      residence.oldest_drawn, residence.oldest, 100.0 * residence.min_used);
  std::printf("left      %llu of %llu items that left were never drawn\n",
              static_cast<Number>(residence.never_drawn), static_cast<Number>(residence.left));
  std::printf(
      "turns     others were let in at most %llu times during one of %llu waits of samplers, "
      "%llu times of %llu of writers",
      static_cast<Number>(residence.samplers.max_let_in),
      static_cast<Number>(residence.samplers.count),
      static_cast<Number>(residence.writers.max_let_in),
      static_cast<Number>(residence.writers.count));
  if (tally.checkpoints != 0) {
    std::printf(
        "\nsaves     %llu checkpoints, each loaded again: %llu items checked, %llu keys from "
        "before a save valid",
        static_cast<Number>(tally.checkpoints), static_cast<Number>(tally.checkpoint_items),
        static_cast<Number>(tally.checkpoint_keys));
  }
  std::printf("\nthreads   %llu lives of actors, %llu of learners, %llu exceptions of simulators\n",
              static_cast<Number>(tally.actor_lives), static_cast<Number>(tally.learner_lives),
              static_cast<Number>(tally.exceptions));
}

void print_findings(const Tally& tally) {
  std::printf("found     %llu violations", static_cast<Number>(tally.findings.violations()));
  const char* separator = ": ";
  for (std::size_t i = 0; i < kFindings; ++i) {
    const auto finding = static_cast<Finding>(i);
    if (tally.findings.count(finding) != 0) {
      std::printf("%s%llu x %s", separator, static_cast<Number>(tally.findings.count(finding)),
                  name_of(finding));
      separator = ", ";
    }
  }
  std::printf("\n");
  for (const std::string& example : tally.findings.examples()) {
    std::printf("          %s\n", example.c_str());
  }
}

}  // namespace

void print_summary(const Tally& tally) {
  std::printf("rate      %.4g appends/s, %.4g batches/s over %.2f s\n", tally.appends_per_second(),
              tally.batches_per_second(), tally.seconds);
  print_truth(tally);
  print_findings(tally);
}

}  // namespace stress
