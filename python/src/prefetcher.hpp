#pragma once

#include <reprise/batch_source.hpp>

#include "sampler.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

namespace reprise::python {

using Buffers = std::vector<std::shared_ptr<SharedBuffer>>;

/// A source of batches of n items, the buffers that it draws from, at least one, and the memory of
/// the batches.
struct PrefetchFrom {
  Buffers buffers;
  std::unique_ptr<BatchSource> source;
  std::shared_ptr<BatchPool> pool;
  std::size_t n;
};

/// A reprise.Prefetcher whose iterator waits up to the timeout for a batch.
[[nodiscard]] nb::object make_prefetcher(PrefetchFrom from, const SampleOptions& sample,
                                         std::size_t depth, std::chrono::nanoseconds timeout);

}  // namespace reprise::python
