#include "checks/limiter_check.hpp"

#include <reprise/rate_limiter.hpp>

#include "testing/library.hpp"

namespace stress {
namespace {

std::string ratio_violation(const reprise::SampleToInsertRatio& ratio, const Strategies& strategies,
                            const Options& options, const reprise::Stats& stats) {
  const auto writers = static_cast<double>(options.actors);
  const double block = block_size(ratio, writers);
  const double balance = static_cast<double>(stats.sampled_items) -
                         ratio.samples_per_insert * (static_cast<double>(stats.committed_steps) -
                                                     static_cast<double>(ratio.min_size));
  const double booked = ratio.samples_per_insert * block * writers;
  if (stats.sampled_items != 0 && balance > ratio.error_buffer + booked) {
    return "samples are " + std::to_string(balance) + " ahead of inserts, " +
           std::to_string(ratio.error_buffer) + " and " + std::to_string(booked) +
           " that writers booked are allowed";
  }
  // While fewer than min_size items can be sampled, the limiter holds no writer, so inserts may run
  // ahead. The number of items falls below min_size again only if items are exhausted or removed;
  // with sequences the number of items does not follow from the number of steps.
  if (options.exhausts() || options.remove ||
      WindowRule(strategies.window).sequences() != nullptr) {
    return {};
  }
  const auto open = static_cast<double>(WindowRule(strategies.window).full_length() - 1) * writers;
  const double unseen = ratio.samples_per_insert * (open + block * (writers + 1.0));
  return -balance > ratio.error_buffer + unseen
             ? "inserts are worth " + std::to_string(-balance) + " samples ahead, " +
                   std::to_string(ratio.error_buffer) + " and " + std::to_string(unseen) +
                   " that nobody could sample yet are allowed"
             : std::string();
}

std::string queue_violation(const reprise::Queue& queue, const Strategies& strategies,
                            const Options& options, const reprise::Stats& stats) {
  const auto writers = static_cast<double>(options.actors);
  const auto size = static_cast<double>(queue.size);
  const double open = WindowRule(strategies.window).full_length() - 1;
  const double most = size + writers * (block_size(queue, writers) + open);
  return static_cast<double>(stats.items) > most
             ? std::to_string(stats.items) + " items wait, at most " + std::to_string(most) +
                   " are allowed"
             : std::string();
}

}  // namespace

double block_size(const reprise::RateLimiter& limiter, double writers) {
  const auto* const ratio = std::get_if<reprise::SampleToInsertRatio>(&limiter);
  const auto* const queue = std::get_if<reprise::Queue>(&limiter);
  const double room = ratio != nullptr   ? ratio->error_buffer / ratio->samples_per_insert
                      : queue != nullptr ? static_cast<double>(queue->size)
                                         : 0.0;
  return std::clamp(room / (2.0 * writers), 1.0, 64.0);
}

std::string limit_violation(const Strategies& strategies, const Options& options,
                            const reprise::Stats& stats) {
  if (const auto* ratio = std::get_if<reprise::SampleToInsertRatio>(&strategies.limiter)) {
    return ratio_violation(*ratio, strategies, options, stats);
  }
  if (const auto* queue = std::get_if<reprise::Queue>(&strategies.limiter)) {
    return queue_violation(*queue, strategies, options, stats);
  }
  return {};
}

}  // namespace stress
