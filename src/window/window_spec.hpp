#pragma once

#include <reprise/window.hpp>

#include <cstdint>

namespace reprise::window {

/// How many rows an item's window needs. Both floors that use it, writing and gathering, take their
/// arithmetic from here.
class WindowSpec {
 public:
  /// std::invalid_argument naming the option, its value and what is allowed.
  explicit WindowSpec(const Window& window);

  [[nodiscard]] const Transitions& transitions() const noexcept { return transitions_; }

  /// Steps in a full return.
  [[nodiscard]] std::uint32_t ahead() const noexcept { return transitions_.n_step; }
  /// Rows before an item's own that its frame stack reads.
  [[nodiscard]] std::uint32_t behind() const noexcept { return transitions_.frame_stack - 1; }

  /// Most rows that move along when a chunk is turned over in the middle of an episode: the frame
  /// stack behind the oldest open item, the open items, and the current row.
  [[nodiscard]] std::uint32_t context_rows() const noexcept { return behind() + ahead(); }
  /// Fewest rows with which a chunk can be worked: the context and the row of the next step.
  [[nodiscard]] std::uint32_t min_chunk_rows() const noexcept { return context_rows() + 1; }

  /// Fewest items in a chunk that was filled and has any, taken over many chunks: one that passes
  /// through several hands takes context for each, but then a chunk that was left in its favour
  /// has none. Of a chunk's rows, behind() at the start are context; at the end up to ahead()
  /// belong to open items, or up to min_chunk_rows() - 1 were too few for the next writer; and in
  /// between an episode of one step takes two rows.
  [[nodiscard]] std::uint32_t min_items(std::uint32_t chunk_rows) const noexcept;

 private:
  Transitions transitions_;
};

}  // namespace reprise::window
