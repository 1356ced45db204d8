#pragma once

#include "buffer/buffer_core.hpp"
#include "save/stored_buffer.hpp"
#include "shard/shard_image.hpp"

#include <vector>

namespace reprise::save {

/// Brings a buffer to the state in which it was saved. No other thread has the buffer yet, and
/// exponents, rows, priorities and item numbers of the images' chunks are in place. The images are
/// changed.
void resume(buffer::BufferCore& core, std::vector<shard::ShardImage>& images,
            const StoredBuffer& stored);

}  // namespace reprise::save
