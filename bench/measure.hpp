#pragma once

#include "base/random.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

/// What all benchmarks share: sizes of the workloads, prepared subjects, and units.
namespace bench {

using reprise::base::Random;

inline constexpr std::size_t kBatch = 512;
inline constexpr float kAlpha = 0.6F;
inline constexpr float kBeta = 0.4F;
inline constexpr float kEpsilon = 1e-4F;
/// Number of different rows that each benchmark appends in turn.
inline constexpr std::size_t kSources = 64;

/// Returns the number whose base-2 logarithm is the benchmark's first argument.
inline std::size_t size_of(const benchmark::State& state) {
  return std::size_t{1} << static_cast<unsigned>(state.range(0));
}

/// Makes the benchmark report the time per item. `items` is the number of items in an iteration.
inline void per_item(benchmark::State& state, std::size_t items) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(items));
  state.counters["items"] = static_cast<double>(items);
}

/// Batches of raw priorities, uniform in [0, 1), generated beforehand.
class Priorities {
 public:
  explicit Priorities(std::size_t batch = kBatch) : batch_(batch), values_(batch * kBatches) {
    Random random(3);
    std::generate(values_.begin(), values_.end(),
                  [&] { return static_cast<float>(random.uniform()); });
  }
  std::span<const float> next() {
    at_ = (at_ + 1) % kBatches;
    return std::span(values_).subspan(at_ * batch_, batch_);
  }

 private:
  static constexpr std::size_t kBatches = 64;
  std::size_t batch_;
  std::vector<float> values_;
  std::size_t at_ = 0;
};

/// Collects the times of single calls in nanoseconds, and computes their mean and quantiles.
class Latencies {
 public:
  explicit Latencies(std::size_t expected) { all_.reserve(expected); }

  template <class Call>
  void time(const Call& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    all_.push_back(static_cast<float>((std::chrono::steady_clock::now() - start).count()));
  }
  [[nodiscard]] double mean() const {
    return std::accumulate(all_.begin(), all_.end(), 0.0) / static_cast<double>(all_.size());
  }
  double quantile(double q) {
    const auto at =
        all_.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(all_.size() - 1));
    std::nth_element(all_.begin(), at, all_.end());
    return static_cast<double>(*at);
  }

 private:
  std::vector<float> all_;
};

namespace detail {
struct CachedSubject {
  const std::type_info* type = nullptr;
  std::size_t size = 0;
  std::shared_ptr<void> subject;
};
inline CachedSubject& cached_subject() {
  static CachedSubject instance;
  return instance;
}
}  // namespace detail

/// Returns a filled Subject(size). The framework calls a benchmark several times in a row with
/// rising iteration counts, so the subject is kept until another type or size is asked for. At most
/// one subject is in memory.
template <class Subject>
Subject& prepared(std::size_t size) {
  detail::CachedSubject& cached_subject = detail::cached_subject();
  if (cached_subject.type == nullptr || *cached_subject.type != typeid(Subject) ||
      cached_subject.size != size) {
    cached_subject = {};
    cached_subject = {&typeid(Subject), size, std::make_shared<Subject>(size)};
  }
  return *static_cast<Subject*>(cached_subject.subject.get());
}

/// Adds the benchmark `name`. An iteration calls once(subject), which handles `items` items. `size`
/// is the subject's size; 0: 2^argument. If the subject has restart(), each run begins with it.
template <class Subject, class Once>
benchmark::internal::Benchmark* add(const std::string& name, std::size_t size, std::size_t items,
                                    const Once& once) {
  return benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    auto& subject = prepared<Subject>(size == 0 ? size_of(state) : size);
    if constexpr (requires { subject.restart(); }) {
      subject.restart();
    }
    for (auto _ : state) {
      once(subject);
    }
    per_item(state, items);
  });
}
/// Adds the benchmark for each size, given as a base-2 logarithm.
template <class Subject, class Once>
void add_sizes(const std::string& name, std::initializer_list<int> log_sizes, std::size_t items,
               const Once& once) {
  auto* const added = add<Subject>(name, /*size=*/0, items, once);
  for (const int log : log_sizes) {
    added->Arg(log);
  }
}

/// Adds the benchmark `name`, which appends `run` steps per iteration and also reports the memory
/// per step.
template <class Subject>
void add_append(const std::string& name, std::size_t capacity, std::size_t run) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    auto& subject = prepared<Subject>(capacity);
    for (auto _ : state) {
      subject.append(run);
    }
    per_item(state, run);
    state.counters["bytes_per_step"] = subject.memory_bytes() / static_cast<double>(capacity);
    state.counters["field_bytes"] = subject.field_bytes();
  });
}

}  // namespace bench
