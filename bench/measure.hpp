#pragma once

#include "base/random.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <typeinfo>
#include <vector>

/// What the subjects share: the workloads' common numbers, prepared state, units.
namespace bench {

using reprise::base::Random;

inline constexpr std::size_t kBatch = 512;
inline constexpr float kAlpha = 0.6F;
inline constexpr float kBeta = 0.4F;
inline constexpr float kEpsilon = 1e-4F;
/// Rows that appends rotate through.
inline constexpr std::size_t kSources = 64;

/// The benchmark's first argument is the base-2 logarithm of N.
inline std::size_t size_of(const benchmark::State& state) {
  return std::size_t{1} << static_cast<unsigned>(state.range(0));
}

/// Reports time per item: `items` in one iteration.
inline void per_item(benchmark::State& state, std::size_t items) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(items));
  state.counters["items"] = static_cast<double>(items);
}

/// Batches of raw priorities, uniform in [0, 1), made beforehand.
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

namespace detail {
struct Kept {
  const std::type_info* type = nullptr;
  std::size_t size = 0;
  std::shared_ptr<void> subject;
};
inline Kept& kept() {
  static Kept instance;
  return instance;
}
}  // namespace detail

/// Subject(size), filled. The framework calls a benchmark several times in a row with rising
/// iteration counts: the subject is kept until another one is asked for, so at most one is in
/// memory.
template <class Subject>
Subject& prepared(std::size_t size) {
  detail::Kept& kept = detail::kept();
  if (kept.type == nullptr || *kept.type != typeid(Subject) || kept.size != size) {
    kept = {};
    kept = {&typeid(Subject), size, std::make_shared<Subject>(size)};
  }
  return *static_cast<Subject*>(kept.subject.get());
}

}  // namespace bench
