#pragma once

#include <reprise/replay_buffer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace prometheus {
class Collectable;
}

/// Metrics of buffers for Prometheus: the optional library `reprise::metrics`, which needs
/// prometheus-cpp. reprise.hpp does not include it. Not stable: calls may change with any version.
///
/// ```
/// reprise::metrics::Metrics metrics;
/// reprise::metrics::Meter meter = metrics.watch(replay);
/// prometheus::Exposer exposer("127.0.0.1:9100");
/// exposer.RegisterCollectable(metrics.collectable());
///
/// meter.commit(writer, end);                       // in place of writer.commit(end)
/// const auto batch = meter.sample(sampler, 256);   // in place of sampler.sample(256)
/// meter.update_priorities(batch->keys(), errors);  // in place of replay.update_priorities
/// ```
/// Each number of `Stats` is a metric, named as in the Python package, such as reprise_items and
/// reprise_committed_steps_total. Waits have, by the label "what", the metrics reprise_waits_total,
/// reprise_wait_timeouts_total, reprise_wait_stops_total, reprise_wait_seconds_total,
/// reprise_wait_longest_seconds, reprise_waiting_now and reprise_waiting_for_seconds. Every metric
/// has the label "buffer". A scrape does not look at steps appended since the last draw, update of
/// priorities or `ReplayBuffer::size`: they are in reprise_pending_steps. The histograms
/// reprise_call_seconds, reprise_sample_age_steps and reprise_sample_reuse show what the calls of a
/// `Meter` measure.
///
/// In a program with libtorch an Exposer fails with "Possible problem binding to port": its threads
/// have stacks of 100 KB, less than the thread-local data of libtorch's libraries. Give a
/// `prometheus::Gateway` the metrics, or serve
/// `prometheus::TextSerializer().Serialize(metrics.collectable()->Collect())` in a thread of yours.
namespace reprise::metrics {

struct Series;
class Gathered;

/// The calls that a `Meter` times, by the label "call": append, sample and update.
enum class Call : std::uint8_t {
  Append,  ///< Commits, their waits included.
  Sample,  ///< Draws and copies of batches, their waits included.
  Update,  ///< Updates of priorities.
};

/// Measures the calls of one buffer.
///
/// Thread safety: every method from any thread, beside scrapes too. Cost of each call: two readings
/// of the clock, and locks that are held for a few instructions, under a microsecond where threads
/// do not meet; a batch takes some 50 ns per item. Memory: at most some 80 bytes per step of the
/// capacity, as steps come and are drawn, and more where episodes have few steps.
/// Lifetime: a meter is destroyed before its buffer is destroyed or moved. Destroying a meter waits
/// for a scrape to end, and removes its metrics. A meter may outlive its `Metrics`.
class Meter {
 public:
  Meter(Meter&&) noexcept;
  Meter& operator=(Meter&&) = delete;
  ~Meter();

  /// `writer.commit(end, priorities)`, timed. Records when a step was appended, for its age.
  CommitStatus commit(Writer& writer, End end = End::Continue,
                      std::span<const float> priorities = {});

  /// `sampler.sample(n, options)`, timed and observed. A call without a batch counts too.
  SampleResult sample(Sampler& sampler, std::size_t n, const SampleOptions& options = {});

  /// `replay.selector(selector).update(keys, priorities)`, timed.
  UpdateResult update_priorities(std::span<const ItemKey> keys, std::span<const float> priorities,
                                 std::size_t selector = 0);

  /// Times any other call, such as one of `VectorWriter` or `sample_into`, and returns its result.
  /// A call that throws is not counted.
  template <class Function>
  std::invoke_result_t<Function> time(Call call, Function&& function) {
    const auto begin = std::chrono::steady_clock::now();
    if constexpr (std::is_void_v<std::invoke_result_t<Function>>) {
      std::forward<Function>(function)();
      record_time(call, std::chrono::steady_clock::now() - begin);
    } else {
      std::invoke_result_t<Function> result = std::forward<Function>(function)();
      record_time(call, std::chrono::steady_clock::now() - begin);
      return result;
    }
  }

  /// Records a batch that another call than `sample` drew. For each item it records the age, which
  /// is the number of steps that `commit` has taken since the item's, and how often recorded
  /// batches had the item, this batch included. An item has no age if another call appended it, or
  /// if more than twice the capacity was appended since. Slots without an item
  /// (`ReplayBuffer::gather`) are left out.
  void observe(const Batch& batch);

 private:
  friend class Metrics;
  explicit Meter(std::shared_ptr<Series> series) noexcept;
  void record_time(Call call, std::chrono::nanoseconds time);

  std::shared_ptr<Series> series_;
};

/// The metrics of any number of buffers.
///
/// Thread safety: every method from any thread.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// For a `prometheus::Exposer` or `Gateway`, which keep a `std::weak_ptr`: the collectable lives
  /// as long as this object or a `Meter` of it. A scrape calls `ReplayBuffer::stats` of each
  /// buffer.
  [[nodiscard]] std::shared_ptr<prometheus::Collectable> collectable() const;

  /// Adds a buffer; `name` is its label "buffer". `std::invalid_argument` for a name in use.
  [[nodiscard]] Meter watch(ReplayBuffer& replay, const std::string& name = "replay");

 private:
  std::shared_ptr<Gathered> gathered_;
};

}  // namespace reprise::metrics
