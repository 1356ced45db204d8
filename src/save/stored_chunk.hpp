#pragma once

#include "buffer/buffer_core.hpp"
#include "record/bytes.hpp"
#include "shard/shard_image.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::save {

/// The bytes of a chunk as a checkpoint holds them: rows, then a priority for each decided row,
/// then when it was decided, if that is kept, then the recurrent states of its items, if they have
/// any. A closed chunk has all its rows; an open one those that are decided and what their windows
/// read beyond them, without the headers there, which the writer may be writing.
struct StoredChunk {
  /// Of a chunk that is pinned, or that nobody else has.
  StoredChunk(buffer::BufferCore& core, const shard::ChunkImage& image);

  std::uint32_t rows = 0;
  /// Point into the chunk and into `zeros`.
  std::vector<record::Bytes> parts;

 private:
  std::vector<std::byte> zeros_;
};

/// Recurrent states of the decided items: each has one, in their order, from the front.
[[nodiscard]] std::uint32_t states_kept(buffer::BufferCore& core, const shard::ChunkImage& image);

/// Rows of an open chunk: up to the last one that a window of a decided item reads.
[[nodiscard]] std::uint32_t rows_read(buffer::BufferCore& core, const shard::ChunkImage& image);

}  // namespace reprise::save
