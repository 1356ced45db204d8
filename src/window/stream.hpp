#pragma once

#include <cstddef>

namespace reprise::window {

/// Copies bytes past the caches, so that the lines that are written need not be read first. For
/// batches so large that no cache keeps them until they are read.
void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// Call it after the last `stream_bytes`: a release alone does not order those stores before later
/// stores of the thread.
void end_stream() noexcept;

}  // namespace reprise::window
