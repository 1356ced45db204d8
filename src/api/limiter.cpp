#include "api/limiter.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace reprise::api {
namespace {

template <class T>
[[noreturn]] void refuse(const char* option, T value, const std::string& allowed) {
  throw std::invalid_argument(base::text(option, " is ", value, "; allowed: ", allowed));
}

void check_min_size(const char* option, std::size_t items, std::size_t capacity_steps) {
  if (items < 1 || items > capacity_steps) {
    refuse(option, items, "1 to capacity_steps = " + std::to_string(capacity_steps));
  }
}

Ratio checked(const RateLimiter& options, std::size_t capacity_steps, std::size_t max_writers) {
  if (const auto* minimum = std::get_if<MinSize>(&options)) {
    check_min_size("MinSize::items", minimum->items, capacity_steps);
    return {.min_size = minimum->items};
  }
  const auto& ratio = std::get<SampleToInsertRatio>(options);
  check_min_size("SampleToInsertRatio::min_size", ratio.min_size, capacity_steps);
  if (!(std::isfinite(ratio.samples_per_insert) && ratio.samples_per_insert > 0.0)) {
    refuse("SampleToInsertRatio::samples_per_insert", ratio.samples_per_insert, "finite, above 0");
  }
  const double least = std::max(1.0, ratio.samples_per_insert);
  if (!(std::isfinite(ratio.error_buffer) && ratio.error_buffer >= least)) {
    refuse("SampleToInsertRatio::error_buffer", ratio.error_buffer,
           "finite, at least max(1, samples_per_insert) = " + std::to_string(least));
  }
  // All writers' blocks together stay within half the error buffer where that is possible.
  const double fair =
      ratio.error_buffer / (2.0 * ratio.samples_per_insert * static_cast<double>(max_writers));
  return {.min_size = ratio.min_size,
          .samples_per_insert = ratio.samples_per_insert,
          .error_buffer = ratio.error_buffer,
          .block = static_cast<std::size_t>(std::clamp(fair, 1.0, 64.0))};
}

}  // namespace

Limiter::Limiter(const RateLimiter& options, std::size_t capacity_steps, std::size_t max_writers)
    : gate_(checked(options, capacity_steps, max_writers)) {}

std::size_t Limiter::book_inserts(std::size_t resident) noexcept {
  return gate_.book_inserts(resident) ? gate_.ratio().block : 0;
}

void Limiter::return_inserts(std::size_t inserts) noexcept {
  gate_.return_inserts(inserts);
}

void Limiter::check_batch(std::size_t items) const {
  const Ratio& ratio = gate_.ratio();
  const double most =
      2.0 * ratio.error_buffer - ratio.samples_per_insert * static_cast<double>(ratio.block);
  if (limits_inserts() && static_cast<double>(items) > most) {
    refuse("batch size", items,
           "at most 2 * error_buffer - samples_per_insert * " + std::to_string(ratio.block) +
               " = " + std::to_string(most));
  }
}

Limiter::Answer Limiter::admit_samples(std::size_t items, std::size_t resident) noexcept {
  if (resident < min_size()) {
    return Answer::TooFewItems;
  }
  return gate_.admit_samples(items) ? Answer::Admitted : Answer::AheadOfInserts;
}

void Limiter::return_samples(std::size_t items) noexcept {
  gate_.return_samples(items);
}

std::string Limiter::explain(std::size_t resident) const {
  if (resident < min_size()) {
    return base::text(resident, " of the ", min_size(), " items that sampling needs");
  }
  if (!limits_inserts()) {
    return base::text("at least ", min_size(), " items: sampling is free");
  }
  const double ahead = gate_.ahead();
  return base::text(ahead >= 0 ? "samples are " : "inserts are worth ", std::abs(std::round(ahead)),
                    ahead >= 0 ? " ahead of " : " samples ahead of ",
                    gate_.ratio().samples_per_insert, " per insert, of ",
                    gate_.ratio().error_buffer, " allowed");
}

}  // namespace reprise::api
