#include "bookkeeper.hpp"

#include "account.hpp"
#include "findings.hpp"
#include "limiter_check.hpp"
#include "scene.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <string>

namespace stress {

Truth Bookkeeper::truth(const std::deque<ActorState>& actors,
                        const std::deque<LearnerState>& learners) const {
  Truth truth;
  for (const ActorState& actor : actors) {
    truth.committed += actor.committed.load(std::memory_order_relaxed);
    truth.open += actor.open;
    truth.writers += actor.writers;
  }
  for (const LearnerState& learner : learners) {
    truth.sampled += learner.sampled.load(std::memory_order_relaxed);
    truth.applied += learner.applied.load(std::memory_order_relaxed);
    truth.stale += learner.stale.load(std::memory_order_relaxed);
  }
  return truth;
}

void Bookkeeper::expect(const char* what, std::uint64_t is, std::uint64_t should_be) {
  if (is != should_be) {
    findings_.add(Finding::AccountingError, std::string(what) + " is " + std::to_string(is) +
                                                ", should be " + std::to_string(should_be));
  }
}

void Bookkeeper::check(const Account& account, const Truth& truth, bool all_in) {
  expect("committed", account.committed, truth.committed);
  expect("resident + evicted + pending", account.resident + account.evicted + account.pending,
         truth.committed);
  expect("sampled", account.sampled, truth.sampled);
  expect("applied updates", account.applied, truth.applied);
  expect("stale updates", account.stale, truth.stale);
  expect("writers", account.writers, truth.writers);
  if (all_in) {
    expect("pending", account.pending, truth.open);
    expect("resident", account.resident,
           std::min<std::uint64_t>(truth.committed - truth.open, options_.capacity_steps));
    check_limit(account);
    expect("unanswered doorbells and pinned chunks", account.unfinished, 0);
  }
  if (account.committed < last_.committed || account.evicted < last_.evicted) {
    findings_.add(Finding::AccountingError, "committed or evicted steps ran backwards");
  }
  last_ = account;
}

void Bookkeeper::check_limit(const Account& account) {
  const std::string broken = broken_limit(strategies_, options_, account);
  if (!broken.empty()) {
    findings_.add(Finding::BrokenLimit, broken);
  }
}

}  // namespace stress
