#pragma once

#include "buffer/buffer_core.hpp"
#include "save/stored_buffer.hpp"
#include "shard/shard_image.hpp"

#include <vector>

namespace reprise::save {

/// Brings a new buffer to the state in which the saved one was. No other thread has the buffer yet,
/// and its exponents, and the rows, priorities and item numbers of the images' chunks are in place.
/// Changes the images.
void resume(buffer::BufferCore& core, std::vector<shard::ShardImage>& images,
            const StoredBuffer& stored);

}  // namespace reprise::save
