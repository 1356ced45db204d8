#pragma once

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include <cstddef>

namespace reprise::base {

/// Calls body(begin, end) for disjoint blocks that cover [0, n), in parallel on oneTBB's threads.
/// The one place where oneTBB is included. May throw std::bad_alloc.
template <class Body>
void parallel_blocks(std::size_t n, std::size_t grain, const Body& body) {
  oneapi::tbb::parallel_for(oneapi::tbb::blocked_range<std::size_t>(0, n, grain),
                            [&](const oneapi::tbb::blocked_range<std::size_t>& block) {
                              body(block.begin(), block.end());
                            });
}

}  // namespace reprise::base
