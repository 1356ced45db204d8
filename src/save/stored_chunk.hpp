#pragma once

#include "buffer/format.hpp"
#include "record/bytes.hpp"
#include "shard/shard_image.hpp"
#include "storage/chunk_store.hpp"

#include <cstdint>
#include <vector>

namespace reprise::save {

/// The bytes of a chunk in a checkpoint: its rows, a priority for each decided row, item numbers if
/// a selector needs them, the recurrent states of the chunk's items if the schema has any, and the
/// compressed frames of its rows if fields are compressed. A closed chunk has all its rows. An open
/// chunk has the decided rows, and the later rows that windows of decided items read. The headers
/// of these later rows are left out, because the writer may be writing them. Rows with mutable
/// columns are copied, because updates may replace their values meanwhile.
struct StoredChunk {
  /// The chunk has to be pinned, or in a buffer that no other thread has.
  StoredChunk(const buffer::Format& format, storage::ChunkStore& store,
              const shard::ChunkImage& image);

  std::uint32_t rows = 0;
  /// The bytes, piece by piece. The pieces lie in the chunk, in `zeros_` and in `copied_`.
  std::vector<record::Bytes> parts;

 private:
  void copy_rows(const buffer::Format& format, storage::ChunkStore& store,
                 const shard::ChunkImage& image, std::uint32_t whole);

  std::vector<std::byte> zeros_;
  std::vector<std::byte> copied_;
};

/// The number of recurrent states that a chunk has: one for each decided item; 0 if the schema has
/// none.
[[nodiscard]] std::uint32_t states_kept(storage::ChunkStore& store, const shard::ChunkImage& image);

/// The number of rows up to the last one that the window of a decided item reads.
[[nodiscard]] std::uint32_t rows_read(const window::WindowSpec& window, storage::ChunkStore& store,
                                      const shard::ChunkImage& image);

}  // namespace reprise::save
