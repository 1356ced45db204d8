#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace apex {

/// Where the learner leaves a flat copy of its parameters, so that actors never read what the
/// optimizer is writing.
///
/// Thread safety: every method from any thread; the lock is held for one copy of the parameters.
class ParameterBoard {
 public:
  void publish(std::span<const float> parameters) {
    const std::lock_guard lock(mutex_);
    parameters_.assign(parameters.begin(), parameters.end());
    ++version_;
  }

  /// Copies the parameters if they are newer than `version`, and moves `version` on.
  bool fetch(std::span<float> to, std::uint64_t& version) const {
    const std::lock_guard lock(mutex_);
    if (version == version_) {
      return false;
    }
    std::copy(parameters_.begin(), parameters_.end(), to.begin());
    version = version_;
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<float> parameters_;  // Guarded by mutex_.
  std::uint64_t version_ = 0;      // Guarded by mutex_; 0 before the first publish.
};

}  // namespace apex
