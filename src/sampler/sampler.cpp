#include <reprise/sampler.hpp>

#include "base/text.hpp"
#include "sampler/sampler_core.hpp"
#include "window/batch_access.hpp"

#include <string>

namespace reprise {

/// A sampler joins the data path here. The next stop is `SamplerCore::sample`, which ingests and
/// then draws.
SampleResult Sampler::sample(std::size_t n, const SampleOptions& options) & {
  window::BatchStore& own = core_->own();
  core_->check(own, 0, n, options);
  own.reserve(n);
  const SampleStatus status = core_->sample(own, 0, n, options);
  return {status.code == SampleStatus::Code::Ok ? &core_->batch() : nullptr, status};
}

SampleStatus Sampler::sample_into(Batch& batch, std::size_t offset, std::size_t n,
                                  const SampleOptions& options) {
  window::BatchStore& store = window::BatchAccess::store(batch);
  core_->check(store, offset, n, options);
  return core_->sample(store, offset, n, options);
}

SampleStatus Sampler::sample_into(Batch& batch, const SampleOptions& options) {
  return sample_into(batch, 0, batch.capacity(), options);
}

Batch Sampler::make_batch(std::size_t n, std::pmr::memory_resource* memory) const {
  return core_->make_batch(n, memory);
}

UpdateResult Sampler::update_priorities(std::span<const ItemKey> keys,
                                        std::span<const float> priorities) {
  return core_->update_priorities(keys, priorities);
}

void Sampler::check(const Batch& batch, const SampleOptions& options) const {
  core_->check(window::BatchAccess::store(batch), 0, batch.capacity(), options);
}

SampleStatus Sampler::outlook(std::size_t n) const {
  return core_->outlook(n);
}

std::string SampleStatus::message() const {
  const std::string why =
      outdated == 0 ? ""
                    : base::text("; ", outdated, " more are outdated: over max_staleness ",
                                 "behind version ", version);
  const auto missing = [this, &why](const char* ended) {
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(waited).count();
    const std::string after = base::text(ended, " after ", milliseconds, " ms: ");
    if (held_by_turn) {
      return base::text(after, "other calls have waited longer, with ", items, " items");
    }
    if (held_by_ratio) {
      return base::text(after, limiter::in_words(balance), ", with ", items, " items", why);
    }
    if (items >= needed && possible < batch) {
      return base::text(after, possible, " of the ", batch,
                        " draws of this batch can be made; each item may be drawn "
                        "max_times_sampled times",
                        why);
    }
    if (items >= needed) {  // Only a prefetcher returns this status.
      return base::text(after, "no batch came of the ", items, " items");
    }
    return base::text(after, items, " of the ", needed,
                      held_by_queue ? " items that this batch needs are there" : " items needed",
                      full ? "; the buffer is full" : "", why);
  };
  switch (code) {
    case Code::Ok:
      return base::text("ok, ", items, " items");
    case Code::Closed:
      return "closed";
    case Code::TimedOut:
      return missing("timed out");
    case Code::Stopped:
      return missing("stopped");
    case Code::NothingToDraw:
      if (items == 0) {
        return "nothing to draw: there are no items" + why;
      }
      if (possible == 0) {
        return base::text("nothing to draw: the weight of each of the ", items, " items is 0");
      }
      return base::text("nothing to draw: ", possible, " of the ", batch,
                        " draws of this batch can be made from ", items, " items",
                        items > possible ? "; the weight of the others is 0" : "");
  }
  return {};
}

namespace detail {

void SamplerDeleter::operator()(sampler::SamplerCore* sampler) const noexcept {
  delete sampler;
}

}  // namespace detail

}  // namespace reprise
