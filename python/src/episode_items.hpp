#pragma once

#include <reprise/window.hpp>

#include <cstddef>
#include <cstdint>

namespace reprise::python {

/// Items that an episode of so many steps, appended as a whole, decides; see `Sequences` and
/// `SequenceEnd`. An `end` of Continue leaves some undecided.
[[nodiscard]] std::size_t episode_items(const Window& window, std::size_t steps, End end);

/// Items begin with steps alone whose position in the episode is a multiple of this.
[[nodiscard]] std::uint64_t item_every(const Window& window);

}  // namespace reprise::python
