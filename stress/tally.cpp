#include "tally.hpp"

#include "account.hpp"
#include "findings.hpp"

#include <algorithm>
#include <cstddef>

namespace stress {

void add_up(Account& sum, const Account& more) {
  sum.committed += more.committed;
  sum.resident += more.resident;
  sum.evicted += more.evicted;
  sum.pending += more.pending;
  sum.sampled += more.sampled;
  sum.applied += more.applied;
  sum.stale += more.stale;
}

void Tally::take(const Findings& from) {
  for (std::size_t i = 0; i < kFindings; ++i) {
    findings[i] = from.count(static_cast<Finding>(i));
  }
  violations = from.violations();
  examples = from.examples();
}

void Tally::merge(const Tally& other) {
  seconds += other.seconds;
  appends += other.appends;
  batches += other.batches;
  append.merge(other.append);
  batch.merge(other.batch);
  add_up(account, other.account);
  rounds += other.rounds;
  closes += other.closes;
  longest_close_ms = std::max(longest_close_ms, other.longest_close_ms);
  quiescent_points += other.quiescent_points;
  actor_lives += other.actor_lives;
  learner_lives += other.learner_lives;
  exceptions += other.exceptions;
  checkpoints += other.checkpoints;
  checkpoint_items += other.checkpoint_items;
  checkpoint_keys += other.checkpoint_keys;
  for (std::size_t i = 0; i < kFindings; ++i) {
    findings[i] += other.findings[i];
  }
  violations += other.violations;
  examples.insert(examples.end(), other.examples.begin(), other.examples.end());
}

}  // namespace stress
