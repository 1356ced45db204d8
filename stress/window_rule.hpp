#pragma once

#include <reprise/window.hpp>

#include "episode.hpp"

#include <cstdint>
#include <vector>

namespace stress {

/// Which items an episode has, as the documentation of `reprise::Window` says. Any thread.
class WindowRule {
 public:
  explicit WindowRule(const reprise::Window& window) : window_(window) {}

  /// Null where items are transitions.
  [[nodiscard]] const reprise::Sequences* sequences() const noexcept {
    return std::get_if<reprise::Sequences>(&window_);
  }
  /// Steps of a whole item. One that begins with step p of an open episode is decided by the commit
  /// that makes it p + reach steps.
  [[nodiscard]] std::uint32_t reach() const noexcept;

  /// Of so many committed steps of an open episode, those whose item is not decided.
  [[nodiscard]] std::uint32_t open(std::uint32_t steps) const noexcept {
    return steps < reach() ? steps : reach() - 1;
  }

  /// Steps of the item that begins with this step; 0 if none does.
  [[nodiscard]] std::uint32_t length_at(std::uint32_t position,
                                        const Episode& episode) const noexcept;

  /// First steps of the items that a commit decides, oldest first: the one that makes the episode
  /// so many steps, and its last with `ends`.
  void decided(std::uint32_t steps, bool ends, std::vector<std::uint32_t>& positions) const;

 private:
  reprise::Window window_;
};

}  // namespace stress
