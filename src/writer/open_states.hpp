#pragma once

#include "storage/row_layout.hpp"
#include "window/window_spec.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace reprise::writer {

/// The recurrent states of a writer's open steps and of the current one, kept until it is known
/// with which of them an item begins. They are found by position in the episode, so nothing moves
/// when the writer moves to its next chunk.
///
/// At most a window's T steps are open or current, one behind the other. Those of them with which
/// an item may begin have a place each; the others share one that nobody reads.
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
  std::size_t bytes_;     ///< Of the states of one step.
  std::uint64_t every_;   ///< Positions that are multiples of this are kept.
  std::uint64_t places_;  ///< The most kept at a time.
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace reprise::writer
