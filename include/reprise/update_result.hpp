#pragma once

#include <cstddef>

namespace reprise {

/// The outcome of `SelectorHandle::update` and `ReplayBuffer::update`.
struct UpdateResult {
  std::size_t applied = 0;  ///< Keys whose item has the new value, repeated keys included.
  std::size_t stale = 0;    ///< Keys whose item was gone; nothing was written.
};

}  // namespace reprise
