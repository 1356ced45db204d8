#include "threads/shared.hpp"

#include "checks/checked_remover.hpp"
#include "checks/limiter_check.hpp"
#include "testing/program/sanitizer.hpp"

#include <limits>

namespace stress {
namespace {

constexpr std::chrono::microseconds kShortTimeout{200};
/// Timeout of a writer that the rate limiter may hold; after it the writer can stand still.
constexpr std::chrono::milliseconds kHeldTimeout{5};

reprise::Options buffer_options(const Options& options, const Strategies& strategies,
                                std::uint32_t round, Findings& findings) {
  reprise::Options result;
  result.capacity_steps = options.capacity_steps;
  result.window = strategies.window;
  result.selectors = {strategies.selector};
  result.max_times_sampled = options.max_times_sampled;
  result.max_staleness = options.max_staleness;
  result.remover = CheckedRemover(strategies.remover, options.exhausts(), findings);
  result.rate_limiter = strategies.limiter;
  result.max_writers = options.actors * std::max<std::size_t>(options.environments, 1);
  // Writers of guests that have left stay until the host has appended all their steps.
  result.max_writers *= options.guests != 0 ? 3U : 1U;
  result.chunk_steps = options.chunk_steps;
  result.shards = options.shards;
  result.episode_index = true;  // The index finds items without a draw.
  result.key_tag = static_cast<std::uint16_t>(round % reprise::ItemKey::kTagMask);
  return result;
}

/// Chooses the kind of fields that a buffer has. With churn, the four kinds follow each other from
/// round to round.
std::uint64_t kind_of(const Options& options, const Episodes& episodes) {
  return options.churn ? (episodes.round() + options.seed) % 4 : 0;
}

}  // namespace

Shared::Shared(const Options& o, const Episodes& e, Findings& f)
    : options(o),
      strategies(strategies_of(o)),
      windows(strategies.window),
      episodes(e),
      world({.name_bytes = o.observation_bytes,
             .many = kind_of(o, e) == 1,
             .states = kind_of(o, e) % 2 == 1 && windows.sequences() != nullptr,
             .compressed = kind_of(o, e) == 3,
             .mutable_columns = o.mutable_column,
             .versions = o.max_staleness.has_value(),
             .recorded = false}),
      findings(f),
      replay(world.schema(), buffer_options(o, strategies, e.round(), f)),
      slots(replay.stats().chunks * replay.options().chunk_steps),
      slots_per_shard(slots / replay.options().shards),
      draw_counts(slots, o.max_times_sampled, strategies.fresh > 0.0F, f),
      arrivals(e, windows, std::max<std::uint64_t>(2 * max_item_age(), 1U << 17U), max_item_age()) {
  // While a sampler waits, each other one may finish the batch under way, and a batch for which it
  // stood in line before.
  samplers.max_allowed = 2 * (std::max<std::size_t>(o.learners, 1) - 1);
  // While a writer waits, each other one may use three blocks of inserts: the one it has booked,
  // the one for which it stood in line before, and one that a departed writer gave back.
  writers.max_allowed = static_cast<std::uint64_t>(3.0 * (max_writers() - 1.0) *
                                                   block_size(strategies.limiter, max_writers()));
}

reprise::WriterOptions Shared::writer_options(bool short_timeout, WaitWatch& watch) const {
  const bool held = strategies.may_hold_writers();
  return {.timeout = short_timeout ? std::chrono::nanoseconds(kShortTimeout)
                     : held        ? std::chrono::nanoseconds(kHeldTimeout)
                                   : reprise::kNoTimeout,
          .hook = held ? &watch : nullptr};
}

reprise::SamplerOptions Shared::sampler_options(std::uint64_t seed, float fresh) {
  reprise::SamplerOptions options{.seed = seed, .fresh = fresh};
  // Half of the samplers gather in parallel even if there is little to gather. ThreadSanitizer does
  // not see how the threads of oneTBB are ordered, so under it no sampler does.
  if (reprise::test::kThreadSanitizer || seed % 2 == 0) {
    options.parallel_gather_bytes = std::numeric_limits<std::size_t>::max();
  } else {
    options.parallel_gather_bytes = 1;
  }
  return options;
}

}  // namespace stress
