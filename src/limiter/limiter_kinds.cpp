#include <reprise/rate_limiter.hpp>

#include "base/describe.hpp"

namespace reprise {
namespace {

constexpr StrategyKind<RateLimiter> kKinds[] = {
    base::describe<RateLimiter, MinSize>(
        "MinSize",
        R"(Samplers wait until this many items can be sampled, 1 to capacity_steps; writers never wait.
Of sequences it counts the steps, but with max_times_sampled or max_staleness the items.)",
        base::option<&MinSize::items>("items", 1)),
    base::describe<RateLimiter, SampleToInsertRatio>(
        "SampleToInsertRatio",
        R"(Holds sampled items per inserted step near a ratio: samplers wait when samples are ahead of it,
writers when inserts are ahead.

samples_per_insert: above 0, at most max_times_sampled if that is set. min_size: items before
  anybody waits for the ratio.
error_buffer: how far either side may be ahead, in sampled items: at least
  max(1, samples_per_insert), at most 1e15, and enough for a batch.
The call that waits longest goes on first. A thread that both appends and samples would wait for
itself, or for another sampler that waits for this thread's steps: give its calls timeouts.)",
        base::option<&SampleToInsertRatio::samples_per_insert>(
            "samples_per_insert", std::numeric_limits<double>::denorm_min()),
        base::option<&SampleToInsertRatio::min_size>("min_size", 1),
        base::option<&SampleToInsertRatio::error_buffer>("error_buffer", 0.0, 1e15)),
    base::describe<RateLimiter, Queue>(
        "Queue",
        R"(A bounded queue: samplers wait for as many items as their batch has, writers while `size` or
more wait to be sampled; the call that waits longest goes on first. It needs max_times_sampled:
first in, first out with Fifo() and max_times_sampled=1.)",
        base::option<&Queue::size>("size", 1)),
    base::describe<RateLimiter, Unlimited>(
        "Unlimited", "Nobody waits; of an empty buffer `sample` raises NothingToDraw.")};

}  // namespace

std::span<const StrategyKind<RateLimiter>> rate_limiters() noexcept {
  return kKinds;
}

template class StrategyKind<RateLimiter>;

}  // namespace reprise
