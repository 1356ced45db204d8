#pragma once

#include "buffer/buffer_core.hpp"
#include "save/stored_buffer.hpp"
#include "shard/shard_image.hpp"

#include <vector>

namespace reprise::save {

/// Brings a buffer that nobody else has yet to where it was saved. Rows, priorities and order of
/// the images' chunks are in place; the images are changed on the way. `std::invalid_argument` for
/// an exponent that cannot be.
void resume(buffer::BufferCore& core, std::vector<shard::ShardImage>& images,
            const StoredBuffer& stored);

}  // namespace reprise::save
