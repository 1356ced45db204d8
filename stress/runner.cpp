#include "runner.hpp"

#include "findings.hpp"
#include "latency.hpp"
#include "live_line.hpp"
#include "options.hpp"
#include "reprise_store.hpp"
#include "round.hpp"
#include "row.hpp"
#include "tally.hpp"
#include "textbook_store.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

namespace stress {
namespace {

template <class Store>
Tally run_with(const Options& options, LiveLine& live) {
  Findings findings;
  auto tally = std::make_unique<Tally>();  // On the heap, because its histograms are large.
  tally->implementation = options.implementation;
  Random random(options.seed);
  if (!options.churn) {
    Round<Store>(options, 0, findings, *tally, live).steady();
  }
  const Clock::time_point start = Clock::now();
  const auto left_seconds = [&] {
    return options.seconds - std::chrono::duration<double>(Clock::now() - start).count();
  };
  std::uint32_t round = 0;
  for (double left = options.seconds; options.churn && left > 0.0; left = left_seconds()) {
    const double length = std::min(left, 0.02 + 1e-3 * static_cast<double>(random.below(400)));
    Round<Store>(options, round++, findings, *tally, live)
        .churn(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(length)),
               random.one_in(2), random);
  }
  tally->take(findings);
  return *tally;
}

}  // namespace

Tally run(const Options& options, Implementation implementation, LiveLine& live) {
  Options own = options;
  own.implementation = implementation;
  if (implementation == Implementation::Reprise) {
    live.begin("reprise");
    return run_with<RepriseStore>(own, live);
  }
  live.begin("textbook");
  return run_with<TextbookStore>(own, live);
}

}  // namespace stress
