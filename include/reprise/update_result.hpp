#pragma once

#include <cstddef>

namespace reprise {

/// What `ReplayBuffer::update_priorities` did with its keys.
struct UpdateResult {
  std::size_t applied = 0;  ///< Keys whose item has the new priority, repeated keys included.
  std::size_t stale = 0;    ///< Keys whose item was evicted meanwhile; nothing was written.
};

}  // namespace reprise
