#pragma once

#include <cstddef>

namespace reprise::window {

/// Copies bytes past the caches: the lines that are written are not read first. For batches so
/// large that no cache keeps them until they are read.
void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// Call it after the last `stream_bytes`: a release alone does not order such stores before the
/// thread's later ones.
void end_stream() noexcept;

}  // namespace reprise::window
