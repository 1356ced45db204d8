#include "limiter/limiter.hpp"

#include <reprise/strategy_kind.hpp>

#include "base/text.hpp"

#include <algorithm>
#include <cmath>

namespace reprise::limiter {
namespace {

void check_items(const char* kind, const char* option, std::size_t items,
                 std::size_t capacity_steps) {
  base::require(items >= 1 && items <= capacity_steps, base::StrategyOf{kind}, option, " is ",
                items, "; allowed: 1 to capacity_steps = ", capacity_steps);
}

void check_ranges(const RateLimiter& options) {
  for (const StrategyKind<RateLimiter>& kind : rate_limiters()) {
    kind.check(options);
  }
}

/// The ratio of the options, checked. `samples_per_insert` stays 0 for a limiter without a ratio.
Ratio checked_ratio(const RateLimiter& options, std::size_t capacity_steps,
                    std::size_t max_writers) {
  if (std::holds_alternative<Queue>(options) || std::holds_alternative<Unlimited>(options)) {
    return {.min_size = 0};
  }
  if (const auto* minimum = std::get_if<MinSize>(&options)) {
    check_items("MinSize", "items", minimum->items, capacity_steps);
    return {.min_size = minimum->items};
  }
  const auto& ratio = std::get<SampleToInsertRatio>(options);
  check_items("SampleToInsertRatio", "min_size", ratio.min_size, capacity_steps);
  check_ratio(ratio);
  // All writers' blocks together stay within half the error buffer where that is possible.
  return {.min_size = ratio.min_size,
          .samples_per_insert = ratio.samples_per_insert,
          .error_buffer = ratio.error_buffer,
          .block_samples = ratio.error_buffer / (2.0 * static_cast<double>(max_writers))};
}

QueueGate<base::StdSync> checked_queue(const RateLimiter& options, std::size_t capacity_steps,
                                       std::size_t max_writers) {
  const auto* queue = std::get_if<Queue>(&options);
  if (queue == nullptr) {
    return {/*size=*/0, /*block=*/1};
  }
  check_items("Queue", "size", queue->size, capacity_steps);
  // All writers' blocks together stay within half the size where that is possible.
  const double fair = static_cast<double>(queue->size) / (2.0 * static_cast<double>(max_writers));
  return {queue->size, static_cast<std::size_t>(std::clamp(fair, 1.0, kMaxBlock))};
}

}  // namespace

Limiter::Limiter(const RateLimiter& options, std::size_t capacity_steps, std::size_t max_writers)
    : ratio_(checked_ratio(options, capacity_steps, max_writers)),
      queue_(checked_queue(options, capacity_steps, max_writers)) {}

void Limiter::check_batch(std::size_t items) const {
  base::require(!is_queue() || items <= queue_.size(), "batch size is ", items,
                "; allowed: at most ", base::StrategyOf{"Queue"}, "size = ", queue_.size());
  if (!ratio_.limits()) {
    return;
  }
  const RatioTerms now = terms();
  const std::size_t block = ratio_.block(now);
  // With a larger batch, writers and samplers could wait for each other (see the class).
  const double max_items =
      2.0 * ratio_.ratio().error_buffer - now.samples_per_insert * static_cast<double>(block);
  base::require(static_cast<double>(items) <= max_items, "batch size is ", items,
                "; allowed: at most 2 * error_buffer - samples_per_insert * ", block, " = ",
                max_items);
}

std::string Limiter::explain(std::size_t items) const {
  if (is_queue()) {
    return base::text(items, " items wait to be sampled, of ", queue_.size(), " allowed");
  }
  const std::size_t least = ratio_.ratio().min_size;
  if (items < least) {
    return base::text(items, " of the ", least, " items that sampling needs");
  }
  if (least == 0) {
    return "unlimited: nobody waits";
  }
  if (!limits_inserts()) {
    return base::text("at least ", least, " items: sampling is free");
  }
  return in_words(balance());
}

void check_ratio(const SampleToInsertRatio& ratio) {
  check_ranges(ratio);
  const double least = std::max(1.0, ratio.samples_per_insert);
  base::require(ratio.error_buffer >= least, base::StrategyOf{"SampleToInsertRatio"},
                "error_buffer is ", ratio.error_buffer,
                "; allowed: at least max(1, samples_per_insert) = ", least);
}

std::string in_words(const RatioBalance& balance) {
  const bool samples = balance.ahead >= 0;
  return base::text(samples ? "samples are " : "inserts are worth ",
                    std::abs(std::round(balance.ahead)),
                    samples ? " ahead of " : " samples ahead of ", balance.samples_per_insert,
                    " per insert, of ", balance.error_buffer, " allowed");
}

}  // namespace reprise::limiter
