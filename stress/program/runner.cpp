#include "program/report.hpp"
#include "threads/round.hpp"

namespace stress {

void run(const Options& options, Tally& tally) {
  LiveLine live;
  Rng rng(mix(options.seed));
  if (!options.churn) {
    Round(options, 0, tally, live).run_steady();
  }
  const Clock::time_point start = Clock::now();
  const auto left_seconds = [&] {
    return options.seconds - std::chrono::duration<double>(Clock::now() - start).count();
  };
  std::uint32_t round = 0;
  for (double left = options.seconds; options.churn && left > 0.0; left = left_seconds()) {
    constexpr double kShortest = 0.02;  // In seconds.
    const std::chrono::duration<double> length(
        std::min(left, kShortest + 1e-3 * static_cast<double>(rng.below(400))));
    Round one(options, round++, tally, live);
    const ChurnEnd end = rng.one_in(2) ? ChurnEnd::Close : ChurnEnd::Stop;
    one.run_churn(std::chrono::duration_cast<Clock::duration>(length), end, rng);
  }
  ResidenceCheck::check_totals(tally.residence, tally.findings);
}

}  // namespace stress
