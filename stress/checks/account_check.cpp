#include "checks/account_check.hpp"

#include "checks/limiter_check.hpp"

namespace stress {

void AccountCheck::expect(const char* what, std::uint64_t is, std::uint64_t expected) {
  if (is != expected) {
    shared_.findings.add(Finding::AccountingError, std::string(what) + " is " + std::to_string(is) +
                                                       ", should be " + std::to_string(expected));
  }
}

void AccountCheck::check(const reprise::Stats& stats, bool all_ingested) {
  std::uint64_t committed = 0;
  std::uint64_t undecided_steps = 0;
  std::uint64_t writers = 0;
  for (const ActorState& actor : shared_.actors) {
    committed += actor.committed.load(std::memory_order_relaxed);
    undecided_steps += actor.undecided_steps;
    writers += actor.writers;
  }
  std::uint64_t sampled = 0;
  std::uint64_t applied = 0;
  std::uint64_t stale = 0;
  for (const LearnerState& learner : shared_.learners) {
    sampled += learner.sampled.load(std::memory_order_relaxed);
    applied += learner.applied.load(std::memory_order_relaxed);
    stale += learner.stale.load(std::memory_order_relaxed);
  }
  // Steps that guests sent may still wait for the rate limiter, and closing the buffer loses them.
  // So the buffer may count fewer steps than the guests, and more writers, as some wait in it.
  const bool guests = shared_.options.guests != 0;
  const bool waits = guests && shared_.strategies.may_hold_writers();
  if ((waits || (guests && !all_ingested)) && stats.committed_steps <= committed) {
    committed = stats.committed_steps;
  }
  expect("committed", stats.committed_steps, committed);
  expect("resident + evicted + pending",
         stats.resident_steps + stats.evicted_steps + stats.pending_steps, committed);
  expect("sampled", stats.sampled_items, sampled);
  if (all_ingested || !guests) {
    expect("applied updates", stats.applied_updates, applied);
    expect("stale updates", stats.stale_updates, stale);
  }
  expect("writers", std::min(stats.writers, waits ? writers : stats.writers), writers);
  if (all_ingested && !waits) {
    expect("pending", stats.pending_steps, undecided_steps);
    expect("resident", stats.resident_steps,
           std::min<std::uint64_t>(committed - undecided_steps, shared_.options.capacity_steps));
  }
  if (all_ingested) {
    check_limit(stats);
    expect("unanswered doorbells and pinned chunks", stats.queued_chunks + stats.retired_pinned, 0);
  }
  if (stats.committed_steps < committed_ || stats.evicted_steps < evicted_) {
    shared_.findings.add(Finding::AccountingError, "committed or evicted steps ran backwards");
  }
  committed_ = stats.committed_steps;
  evicted_ = stats.evicted_steps;
}

void AccountCheck::check_limit(const reprise::Stats& stats) {
  const std::string broken = limit_violation(shared_.strategies, shared_.options, stats);
  if (!broken.empty()) {
    shared_.findings.add(Finding::BrokenLimit, broken);
  }
}

}  // namespace stress
