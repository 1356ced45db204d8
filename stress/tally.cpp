#include "tally.hpp"

#include "account.hpp"
#include "findings.hpp"

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

}  // namespace stress
