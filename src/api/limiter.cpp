#include "api/limiter.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace reprise::api {
namespace {

template <class T>
[[noreturn]] void refuse(const char* option, T value, const std::string& allowed) {
  std::ostringstream message;
  message << option << " is " << value << "; allowed: " << allowed;
  throw std::invalid_argument(message.str());
}

void check_min_size(const char* option, std::size_t items, std::size_t capacity_steps) {
  if (items < 1 || items > capacity_steps) {
    refuse(option, items, "1 to capacity_steps = " + std::to_string(capacity_steps));
  }
}

}  // namespace

Limiter::Limiter(const RateLimiter& options, std::size_t capacity_steps, std::size_t max_writers) {
  if (const auto* minimum = std::get_if<MinSize>(&options)) {
    check_min_size("MinSize::items", minimum->items, capacity_steps);
    min_size_ = minimum->items;
    return;
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
  min_size_ = ratio.min_size;
  ratio_ = ratio.samples_per_insert;
  error_buffer_ = ratio.error_buffer;
  // All writers' blocks together stay within half the error buffer where that is possible.
  const double fair = error_buffer_ / (2.0 * ratio_ * static_cast<double>(max_writers));
  block_ = static_cast<std::size_t>(std::clamp(fair, 1.0, 64.0));
}

double Limiter::balance(std::uint64_t samples, std::uint64_t inserts) const noexcept {
  const auto counted = static_cast<double>(inserts) - static_cast<double>(min_size_);
  return static_cast<double>(samples) - ratio_ * counted;
}

std::size_t Limiter::book_inserts(std::size_t resident) noexcept {
  std::uint64_t inserts = inserts_.load(std::memory_order_seq_cst);
  do {
    const std::uint64_t after = inserts + block_;
    const bool needed = after <= min_size_ || resident < min_size_;
    if (!needed && balance(samples_.load(std::memory_order_seq_cst), after) < -error_buffer_) {
      return 0;
    }
  } while (!inserts_.compare_exchange_weak(inserts, inserts + block_, std::memory_order_seq_cst));
  return block_;
}

void Limiter::return_inserts(std::size_t inserts) noexcept {
  inserts_.fetch_sub(inserts, std::memory_order_seq_cst);
}

void Limiter::check_batch(std::size_t items) const {
  const double most = 2.0 * error_buffer_ - ratio_ * static_cast<double>(block_);
  if (limits_inserts() && static_cast<double>(items) > most) {
    refuse("batch size", items,
           "at most 2 * error_buffer - samples_per_insert * " + std::to_string(block_) + " = " +
               std::to_string(most));
  }
}

Limiter::Answer Limiter::admit_samples(std::size_t items, std::size_t resident) noexcept {
  if (resident < min_size_) {
    return Answer::TooFewItems;
  }
  std::uint64_t samples = samples_.load(std::memory_order_seq_cst);
  do {
    if (limits_inserts() &&
        balance(samples + items, inserts_.load(std::memory_order_seq_cst)) > error_buffer_) {
      return Answer::AheadOfInserts;
    }
  } while (!samples_.compare_exchange_weak(samples, samples + items, std::memory_order_seq_cst));
  return Answer::Admitted;
}

void Limiter::return_samples(std::size_t items) noexcept {
  samples_.fetch_sub(items, std::memory_order_seq_cst);
}

std::string Limiter::explain(std::size_t resident) const {
  std::ostringstream text;
  if (resident < min_size_) {
    text << resident << " of the " << min_size_ << " items that sampling needs";
    return text.str();
  }
  if (!limits_inserts()) {
    text << "at least " << min_size_ << " items: sampling is free";
    return text.str();
  }
  // Relaxed: statistics.
  const double ahead =
      balance(samples_.load(std::memory_order_relaxed), inserts_.load(std::memory_order_relaxed));
  text << (ahead >= 0 ? "samples are " : "inserts are worth ") << std::abs(std::round(ahead))
       << (ahead >= 0 ? " ahead of " : " samples ahead of ") << ratio_ << " per insert, of "
       << error_buffer_ << " allowed";
  return text.str();
}

}  // namespace reprise::api
