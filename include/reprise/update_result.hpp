#pragma once

#include <cstddef>

namespace reprise {

/// The outcome of `ReplayBuffer::update_priorities`.
struct UpdateResult {
  std::size_t applied = 0;  ///< Keys whose item has the new priority, repeated keys included.
  std::size_t stale = 0;    ///< Keys whose item was gone; nothing was written.
};

}  // namespace reprise
