#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <vector>

namespace apex {

/// Returns of the last episodes that the greediest environments finished while training.
///
/// Thread safety: every method from any thread.
class Scoreboard {
 public:
  explicit Scoreboard(std::size_t episodes) : returns_(episodes) {}

  void add(float episode_return) {
    const std::lock_guard lock(mutex_);
    returns_[episodes_++ % returns_.size()] = episode_return;
  }

  struct Summary {
    std::size_t episodes = 0;  ///< Ever added.
    bool full = false;         ///< The mean is over as many episodes as were asked for.
    float mean = 0.0F;         ///< Of the last episodes; 0 before the first.
  };

  [[nodiscard]] Summary summary() const {
    const std::lock_guard lock(mutex_);
    const std::size_t count = std::min(episodes_, returns_.size());
    const float sum = std::accumulate(returns_.begin(),
                                      returns_.begin() + static_cast<std::ptrdiff_t>(count), 0.0F);
    return {.episodes = episodes_,
            .full = count == returns_.size(),
            .mean = count == 0 ? 0.0F : sum / static_cast<float>(count)};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<float> returns_;  // Guarded by mutex_; a ring.
  std::size_t episodes_ = 0;    // Guarded by mutex_.
};

}  // namespace apex
