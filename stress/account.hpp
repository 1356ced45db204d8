#pragma once

#include <cstdint>

namespace stress {

/// The buffer's own counts of its steps and items.
struct Account {
  std::uint64_t committed = 0;
  std::uint64_t resident = 0;
  std::uint64_t evicted = 0;
  std::uint64_t pending = 0;
  std::uint64_t sampled = 0;
  std::uint64_t applied = 0;
  std::uint64_t stale = 0;
  std::uint64_t writers = 0;
  std::uint64_t items = 0;       ///< Items that can be drawn.
  std::uint64_t unfinished = 0;  ///< Bells not answered and evicted chunks still pinned.
};

/// The counts that actors and learners keep themselves.
struct Truth {
  std::uint64_t committed = 0;
  std::uint64_t open = 0;  ///< Committed steps whose window is not complete.
  std::uint64_t writers = 0;
  std::uint64_t sampled = 0;
  std::uint64_t applied = 0;
  std::uint64_t stale = 0;
};

}  // namespace stress
