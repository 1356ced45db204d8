#pragma once

#include "base/mutex.hpp"
#include "base/random.hpp"
#include "checkpoint/names.hpp"

#include <optional>
#include <vector>

namespace reprise::buffer {

/// What saves of a buffer go on from.
struct Saves {
  base::Mutex mutex;  ///< One save at a time.
  /// The checkpoint whose closed chunks are in this buffer.
  std::optional<checkpoint::ManifestId> base REPRISE_GUARDED_BY(mutex);
  /// Random states of the samplers that were saved; set before anybody has the buffer.
  std::vector<base::Random::State> samplers;
};

}  // namespace reprise::buffer
