#pragma once

#include <reprise/metrics.hpp>

#include "base/mutex.hpp"
#include "metrics/append_log.hpp"
#include "metrics/draw_counts.hpp"
#include "metrics/prometheus.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace reprise::metrics {

/// Measurements of one `Meter`.
struct Series {
  Series(std::shared_ptr<Gathered> whole, ReplayBuffer& replay, std::string label);

  std::shared_ptr<Gathered> gathered;
  ReplayBuffer& buffer;
  std::string name;
  // The histograms have locks of their own.
  prometheus::Histogram append_seconds;
  prometheus::Histogram sample_seconds;
  prometheus::Histogram update_seconds;
  prometheus::Histogram age_steps;
  prometheus::Histogram reuse;

  base::Mutex mutex;
  AppendLog appended REPRISE_GUARDED_BY(mutex);
  DrawCounts draws REPRISE_GUARDED_BY(mutex);
};

/// Collects all buffers of a `Metrics`, because a scrape has each metric once, with all its labels.
class Gathered final : public prometheus::Collectable {
 public:
  /// Throws `std::invalid_argument` for a name in use.
  void add(Series& series) REPRISE_EXCLUDES(mutex_);
  /// Waits for a scrape under way to end, because it reads the series.
  void remove(const Series& series) noexcept REPRISE_EXCLUDES(mutex_);

  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override
      REPRISE_EXCLUDES(mutex_);

 private:
  mutable base::Mutex mutex_;
  std::map<std::string, Series*> series_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::metrics
