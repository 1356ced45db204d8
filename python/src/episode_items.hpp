#pragma once

#include <reprise/window.hpp>

#include <cstddef>

namespace reprise::python {

/// Items that an episode of so many steps, appended as a whole, decides; see `Sequences` and
/// `SequenceEnd`. An `end` of Continue leaves some undecided.
[[nodiscard]] std::size_t episode_items(const Window& window, std::size_t steps, End end);

}  // namespace reprise::python
