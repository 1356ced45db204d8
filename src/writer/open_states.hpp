#pragma once

#include "storage/row_layout.hpp"
#include "window/window_spec.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace reprise::writer {

/// Keeps the recurrent states of a writer's open steps and of the current one until it is known
/// which of these steps begin an item. States are found by position in the episode, so they need
/// not move when the writer moves to its next chunk.
///
/// At most a window's T steps are open or current, and they are consecutive. Each step with which
/// an item may begin has a place of its own; all other steps share one place that nobody reads.
///
/// One thread at a time.
class OpenStates {
 public:
  OpenStates(const storage::RowLayout& layout, const window::WindowSpec& window)
      : bytes_(layout.state_stride()),
        every_(window.item_every()),
        places_((window.ahead() + every_ - 1) / every_),
        memory_(bytes_ == 0 ? nullptr
                            : std::make_unique_for_overwrite<std::byte[]>((places_ + 1) * bytes_)) {
  }

  /// Whether an item may begin with the step at this position.
  [[nodiscard]] bool kept(std::uint64_t position) const noexcept { return position % every_ == 0; }

  [[nodiscard]] std::byte* at(std::uint64_t position) const noexcept {
    const std::uint64_t place = kept(position) ? position / every_ % places_ : places_;
    return memory_.get() + place * bytes_;
  }

 private:
  std::size_t bytes_;     ///< Bytes of the states of one step.
  std::uint64_t every_;   ///< Positions that are multiples of this are kept.
  std::uint64_t places_;  ///< The most states kept at a time.
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace reprise::writer
