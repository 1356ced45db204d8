#pragma once

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <cstddef>
#include <cstdint>

namespace reprise::base {

/// Calls body(begin, end) for disjoint blocks that cover [0, n), in parallel on oneTBB's threads.
/// Only this header includes oneTBB. May throw std::bad_alloc.
///
/// The call is isolated: while this thread waits for the other blocks it runs no task of the user,
/// which could use the same sampler, or delay giving its pins back. The blocks belong to no task
/// group of the user, because cancelling that group would leave blocks out and say nothing.
template <class Body>
void parallel_blocks(std::size_t n, std::size_t grain, const Body& body) {
  using Range = oneapi::tbb::blocked_range<std::size_t>;
  oneapi::tbb::task_group_context own(oneapi::tbb::task_group_context::isolated);
  oneapi::tbb::this_task_arena::isolate([&] {
    oneapi::tbb::parallel_for(
        Range(0, n, grain), [&](const Range& block) { body(block.begin(), block.end()); }, own);
  });
}

/// Calls call(i) for each i in [0, n), in parallel if `bytes` is large enough for that to pay.
template <class Call>
void for_each_index(std::size_t n, std::uint64_t bytes, const Call& call) {
  constexpr std::uint64_t kParallelBytes = std::uint64_t{4} << 20U;
  const auto call_range = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      call(i);
    }
  };
  if (n > 1 && bytes >= kParallelBytes) {
    parallel_blocks(n, /*grain=*/1, call_range);
  } else {
    call_range(0, n);
  }
}

}  // namespace reprise::base
