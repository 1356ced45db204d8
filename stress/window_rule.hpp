#pragma once

#include <reprise/window.hpp>

#include "episode.hpp"

#include <cstdint>
#include <vector>

namespace stress {

/// The items that an episode has, as the documentation of `reprise::Window` says. Any thread.
class WindowRule {
 public:
  explicit WindowRule(const reprise::Window& window) : window_(window) {}

  /// Null if items are transitions.
  [[nodiscard]] const reprise::Sequences* sequences() const noexcept {
    return std::get_if<reprise::Sequences>(&window_);
  }
  /// Steps of a whole item. If it begins with step p of an open episode, the commit that makes the
  /// episode p + reach steps long decides it.
  [[nodiscard]] std::uint32_t reach() const noexcept;

  /// The number of undecided steps in an open episode of `steps` committed steps.
  [[nodiscard]] std::uint32_t open(std::uint32_t steps) const noexcept {
    return steps < reach() ? steps : reach() - 1;
  }

  /// Steps of the item that begins with this step; 0 if none does.
  [[nodiscard]] std::uint32_t length_at(std::uint32_t position,
                                        const Episode& episode) const noexcept;

  /// First steps of the items that a commit decides, oldest first. The commit makes the episode
  /// `steps` long, and ends it with `ends`.
  void decided(std::uint32_t steps, bool ends, std::vector<std::uint32_t>& positions) const;

 private:
  reprise::Window window_;
};

}  // namespace stress
