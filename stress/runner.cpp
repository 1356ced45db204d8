#include "runner.hpp"

#include "findings.hpp"
#include "live_line.hpp"
#include "options.hpp"
#include "residence_check.hpp"
#include "round.hpp"
#include "row.hpp"
#include "scene.hpp"
#include "tally.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace stress {
Tally run(const Options& options) {
  LiveLine live;
  Findings findings;
  Tally tally;
  Random random(options.seed);
  if (!options.churn) {
    Round(options, 0, findings, tally, live).steady();
  }
  const Clock::time_point start = Clock::now();
  const auto left_seconds = [&] {
    return options.seconds - std::chrono::duration<double>(Clock::now() - start).count();
  };
  std::uint32_t round = 0;
  for (double left = options.seconds; options.churn && left > 0.0; left = left_seconds()) {
    const double length = std::min(left, 0.02 + 1e-3 * static_cast<double>(random.below(400)));
    Round(options, round++, findings, tally, live)
        .churn(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(length)),
               random.one_in(2), random);
  }
  ResidenceCheck::judge(tally.residence, findings);
  tally.take(findings);
  return tally;
}

}  // namespace stress
