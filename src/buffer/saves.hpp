#pragma once

#include "base/mutex.hpp"
#include "base/random.hpp"
#include "checkpoint/names.hpp"

#include <optional>
#include <vector>

namespace reprise::buffer {

/// State that saves of a buffer hand on to the next save.
struct Saves {
  base::Mutex mutex;  ///< One save at a time.
  /// The checkpoint whose closed chunks are in this buffer.
  std::optional<checkpoint::ManifestId> base REPRISE_GUARDED_BY(mutex);
  /// Random states of the samplers in the checkpoint that the buffer was loaded from. Set before
  /// any other thread has the buffer.
  std::vector<base::Random::State> samplers;
};

}  // namespace reprise::buffer
