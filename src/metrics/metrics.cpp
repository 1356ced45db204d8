#include <reprise/metrics.hpp>

#include "metrics/series.hpp"

#include <new>
#include <utility>

namespace reprise::metrics {
namespace {

/// Returns `count` bounds: first, first * factor, first * factor^2, ...
std::vector<double> bounds(double first, double factor, std::size_t count) {
  std::vector<double> bounds;
  for (double bound = first; bounds.size() < count; bound *= factor) {
    bounds.push_back(bound);
  }
  return bounds;
}

std::vector<double> bounds_of_seconds() {
  return bounds(250e-9, 2.0, 24);  // The largest is 2 s.
}

}  // namespace

Series::Series(std::shared_ptr<Gathered> whole, ReplayBuffer& replay, std::string label)
    : gathered(std::move(whole)),
      buffer(replay),
      name(std::move(label)),
      append_seconds(bounds_of_seconds()),
      sample_seconds(bounds_of_seconds()),
      update_seconds(bounds_of_seconds()),
      age_steps(bounds(1.0, 4.0, 14)),  // The largest is 67 million.
      reuse(bounds(1.0, 2.0, 13)),      // The largest is 4096.
      appended(2 * replay.options().capacity_steps) {}

Meter::Meter(std::shared_ptr<Series> series) noexcept : series_(std::move(series)) {}
Meter::Meter(Meter&&) noexcept = default;
Meter::~Meter() {
  if (series_ != nullptr) {
    series_->gathered->remove(*series_);
  }
}

CommitStatus Meter::commit(Writer& writer, End end, std::span<const float> priorities) {
  const CommitStatus status = time(Call::Append, [&] { return writer.commit(end, priorities); });
  if (status == CommitStatus::Committed) {
    try {
      const base::MutexLock lock(series_->mutex);
      series_->appended.note(writer.episode_id(), writer.episode_steps() - 1);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the step has no age.
    }
  }
  return status;
}

SampleResult Meter::sample(Sampler& sampler, std::size_t n, const SampleOptions& options) {
  const SampleResult result = time(Call::Sample, [&] { return sampler.sample(n, options); });
  // Without a gather the batch does not say which steps its items begin with.
  if (result && options.gather) {
    try {
      observe(*result);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the batch is drawn.
    }
  }
  return result;
}

UpdateResult Meter::update_priorities(std::span<const ItemKey> keys,
                                      std::span<const float> priorities, std::size_t selector) {
  return time(Call::Update,
              [&] { return series_->buffer.selector(selector).update(keys, priorities); });
}

void Meter::observe(const Batch& batch) {
  const base::MutexLock lock(series_->mutex);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch.lengths()[i] == 0) {
      continue;
    }
    series_->reuse.Observe(series_->draws.add(batch.keys()[i]));
    if (const auto age = series_->appended.age(batch.episode_ids()[i], batch.positions()[i])) {
      series_->age_steps.Observe(static_cast<double>(*age));
    }
  }
}

void Meter::record_time(Call call, std::chrono::nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  (call == Call::Append   ? series_->append_seconds
   : call == Call::Sample ? series_->sample_seconds
                          : series_->update_seconds)
      .Observe(seconds);
}

Metrics::Metrics() : gathered_(std::make_shared<Gathered>()) {}
Metrics::~Metrics() = default;

std::shared_ptr<prometheus::Collectable> Metrics::collectable() const {
  return gathered_;
}

Meter Metrics::watch(ReplayBuffer& replay, const std::string& name) {
  auto series = std::make_shared<Series>(gathered_, replay, name);
  gathered_->add(*series);
  return Meter(std::move(series));
}

}  // namespace reprise::metrics
