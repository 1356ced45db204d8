#include "checks/account_check.hpp"

#include "checks/limiter_check.hpp"

namespace stress {

void AccountCheck::expect(const char* what, std::uint64_t is, std::uint64_t expected) {
  if (is != expected) {
    shared_.findings.add(Finding::AccountingError, std::string(what) + " is " + std::to_string(is) +
                                                       ", should be " + std::to_string(expected));
  }
}

AccountCheck::Counted AccountCheck::count() const {
  Counted sum;
  for (const ActorState& actor : shared_.actors) {
    sum.committed += actor.committed.load(std::memory_order_relaxed);
    sum.undecided_steps += actor.undecided_steps;
    sum.writers += actor.writers;
  }
  for (const LearnerState& learner : shared_.learners) {
    sum.sampled += learner.sampled.load(std::memory_order_relaxed);
    sum.applied += learner.applied.load(std::memory_order_relaxed);
    sum.stale += learner.stale.load(std::memory_order_relaxed);
  }
  return sum;
}

void AccountCheck::check(const reprise::Stats& stats, Ingested ingested) {
  const bool all_ingested = ingested == Ingested::All;
  Counted threads = count();
  // Steps that guests sent may still wait for the rate limiter, and closing the buffer loses them.
  // So the buffer may count fewer steps than the guests, and more writers, as some wait in it.
  const bool guests = shared_.options.guests != 0;
  const bool waits = guests && shared_.strategies.may_hold_writers();
  const bool may_lack_steps = waits || (guests && !all_ingested);
  if (may_lack_steps) {
    threads.committed = std::min(threads.committed, stats.committed_steps);
  }
  expect("committed", stats.committed_steps, threads.committed);
  expect("resident + evicted + pending",
         stats.resident_steps + stats.evicted_steps + stats.pending_steps, threads.committed);
  expect("sampled", stats.sampled_items, threads.sampled);
  if (all_ingested || !guests) {
    expect("applied updates", stats.applied_updates, threads.applied);
    expect("stale updates", stats.stale_updates, threads.stale);
  }
  if (!waits || stats.writers < threads.writers) {
    expect("writers", stats.writers, threads.writers);
  }
  if (all_ingested && !waits) {
    expect("pending", stats.pending_steps, threads.undecided_steps);
    expect("resident", stats.resident_steps,
           std::min<std::uint64_t>(threads.committed - threads.undecided_steps,
                                   shared_.options.capacity_steps));
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
