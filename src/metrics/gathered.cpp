#include "metrics/series.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace reprise::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

static_assert(std::is_same_v<std::size_t, std::uint64_t>);
using Count = std::uint64_t Stats::*;

// The Python package has the same names (python/reprise/metrics.py).
constexpr std::pair<const char*, Count> kCounters[] = {
    {"reprise_committed_steps_total", &Stats::committed_steps},
    {"reprise_evicted_steps_total", &Stats::evicted_steps},
    {"reprise_sampled_items_total", &Stats::sampled_items},
    {"reprise_sampled_batches_total", &Stats::sampled_batches},
    {"reprise_applied_updates_total", &Stats::applied_updates},
    {"reprise_stale_updates_total", &Stats::stale_updates},
    {"reprise_dead_guest_steps_total", &Stats::dead_guest_steps},
    {"reprise_cut_episodes_total", &Stats::cut_episodes},
    {"reprise_ever_outdated_items_total", &Stats::ever_outdated_items},
};
constexpr std::pair<const char*, Count> kGauges[] = {
    {"reprise_resident_steps", &Stats::resident_steps},
    {"reprise_excess_steps", &Stats::excess_steps},
    {"reprise_items", &Stats::items},
    {"reprise_pending_steps", &Stats::pending_steps},
    {"reprise_outdated_items", &Stats::outdated_items},
    {"reprise_version", &Stats::version},
    {"reprise_writers", &Stats::writers},
    {"reprise_queued_chunks", &Stats::queued_chunks},
    {"reprise_retired_pinned", &Stats::retired_pinned},
    {"reprise_chunks", &Stats::chunks},
    {"reprise_chunks_touched", &Stats::chunks_touched},
    {"reprise_chunk_bytes", &Stats::chunk_bytes},
    {"reprise_reserved_bytes", &Stats::reserved_bytes},
    {"reprise_touched_bytes", &Stats::touched_bytes},
    {"reprise_compressed_bytes", &Stats::compressed_bytes},
    {"reprise_uncompressed_bytes", &Stats::uncompressed_bytes},
    {"reprise_file_bytes", &Stats::file_bytes},
    {"reprise_closed_chunks", &Stats::closed_chunks},
    {"reprise_writer_ingests", &Stats::writer_ingests},
    {"reprise_guests", &Stats::guests},
    {"reprise_unsaved_steps", &Stats::unsaved_steps},
};
constexpr std::pair<const char*, WaitStats Stats::*> kKindsOfWait[] = {
    {"writers_for_chunk", &Stats::writers_for_chunk},
    {"writers_for_limiter", &Stats::writers_for_limiter},
    {"samplers_for_items", &Stats::samplers_for_items},
    {"samplers_for_limiter", &Stats::samplers_for_limiter},
};

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}
double number(std::uint64_t count) {
  return static_cast<double>(count);
}

struct WaitMetric {
  const char* name;
  MetricType type;
  double (*value)(const WaitStats&);
};
constexpr WaitMetric kWaitMetrics[] = {
    {"reprise_waits_total", MetricType::Counter,
     [](const WaitStats& wait) { return number(wait.waits); }},
    {"reprise_wait_timeouts_total", MetricType::Counter,
     [](const WaitStats& wait) { return number(wait.timeouts); }},
    {"reprise_wait_stops_total", MetricType::Counter,
     [](const WaitStats& wait) { return number(wait.stops); }},
    {"reprise_wait_seconds_total", MetricType::Counter,
     [](const WaitStats& wait) { return seconds(wait.total); }},
    {"reprise_wait_longest_seconds", MetricType::Gauge,
     [](const WaitStats& wait) { return seconds(wait.longest); }},
    {"reprise_waiting_now", MetricType::Gauge,
     [](const WaitStats& wait) { return number(wait.waiting_now); }},
    {"reprise_waiting_for_seconds", MetricType::Gauge,
     [](const WaitStats& wait) { return seconds(wait.waiting_for); }},
};

/// Makes the families of a scrape, each with the values of all series.
class Scrape {
 public:
  using Labels = std::vector<ClientMetric::Label>;

  void begin(const char* name, MetricType type, const char* help) {
    families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
  }
  void value(double value, Labels labels) {
    ClientMetric metric;
    metric.label = std::move(labels);
    if (families_.back().type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    families_.back().metric.push_back(std::move(metric));
  }
  void histogram(const prometheus::Histogram& histogram, Labels labels) {
    ClientMetric metric = histogram.Collect();
    metric.label = std::move(labels);
    families_.back().metric.push_back(std::move(metric));
  }
  [[nodiscard]] std::vector<MetricFamily> take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
};

constexpr const char* kSeeStats = "See reprise::Stats.";

}  // namespace

void Gathered::add(Series& series) {
  const base::MutexLock lock(mutex_);
  if (!series_.emplace(series.name, &series).second) {
    throw std::invalid_argument("metrics of a buffer named \"" + series.name +
                                "\" are watched already; each name is for one buffer");
  }
}

void Gathered::remove(const Series& series) noexcept {
  const base::MutexLock lock(mutex_);
  series_.erase(series.name);
}

std::vector<MetricFamily> Gathered::Collect() const {
  const base::MutexLock lock(mutex_);
  std::vector<std::pair<const Series*, Stats>> all;
  for (const auto& [name, series] : series_) {
    all.emplace_back(series, series->buffer.stats());
  }
  Scrape scrape;
  const auto counts = [&](const auto& names, MetricType type) {
    for (const auto& [name, count] : names) {
      scrape.begin(name, type, kSeeStats);
      for (const auto& [series, stats] : all) {
        scrape.value(number(stats.*count), {{"buffer", series->name}});
      }
    }
  };
  counts(kCounters, MetricType::Counter);
  counts(kGauges, MetricType::Gauge);
  scrape.begin("reprise_samples_per_insert", MetricType::Gauge, kSeeStats);
  for (const auto& [series, stats] : all) {
    scrape.value(stats.samples_per_insert, {{"buffer", series->name}});
  }
  for (const WaitMetric& metric : kWaitMetrics) {
    scrape.begin(metric.name, metric.type, kSeeStats);
    for (const auto& [series, stats] : all) {
      for (const auto& [what, wait] : kKindsOfWait) {
        scrape.value(metric.value(stats.*wait), {{"buffer", series->name}, {"what", what}});
      }
    }
  }
  scrape.begin("reprise_call_seconds", MetricType::Histogram,
               "Time that calls took, waits included.");
  for (const auto& [series, stats] : all) {
    scrape.histogram(series->append_seconds, {{"buffer", series->name}, {"call", "append"}});
    scrape.histogram(series->sample_seconds, {{"buffer", series->name}, {"call", "sample"}});
    scrape.histogram(series->update_seconds, {{"buffer", series->name}, {"call", "update"}});
  }
  scrape.begin("reprise_sample_age_steps", MetricType::Histogram,
               "Steps appended between an item and its draw.");
  for (const auto& [series, stats] : all) {
    scrape.histogram(series->age_steps, {{"buffer", series->name}});
  }
  scrape.begin("reprise_sample_reuse", MetricType::Histogram,
               "Draws of an item so far, at each draw.");
  for (const auto& [series, stats] : all) {
    scrape.histogram(series->reuse, {{"buffer", series->name}});
  }
  return scrape.take();
}

}  // namespace reprise::metrics
