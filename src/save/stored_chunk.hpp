#pragma once

#include "buffer/format.hpp"
#include "record/bytes.hpp"
#include "shard/shard_image.hpp"
#include "storage/chunk_store.hpp"

#include <cstdint>
#include <vector>

namespace reprise::save {

/// The bytes of a chunk in a checkpoint: its rows, a priority for each decided row, item numbers if
/// a selector needs them, the recurrent states of its items if the schema has any, and the
/// compressed frames of its rows if fields are compressed. A closed chunk has all its rows. An open
/// chunk has the decided rows and those that their windows read beyond them, without the headers of
/// the latter, because the writer may be writing these. Rows with mutable columns are copied,
/// because their values may be replaced meanwhile.
struct StoredChunk {
  /// The chunk has to be pinned, or in a buffer that no other thread has.
  StoredChunk(const buffer::Format& format, storage::ChunkStore& store,
              const shard::ChunkImage& image);

  std::uint32_t rows = 0;
  /// These point into the chunk, `zeros_` and `copied_`.
  std::vector<record::Bytes> parts;

 private:
  void copy_rows(const buffer::Format& format, storage::ChunkStore& store,
                 const shard::ChunkImage& image, std::uint32_t whole);

  std::vector<std::byte> zeros_;
  std::vector<std::byte> copied_;
};

/// The number of recurrent states that a chunk has: one for each decided item, 0 without states.
[[nodiscard]] std::uint32_t states_kept(storage::ChunkStore& store, const shard::ChunkImage& image);

/// The number of rows up to the last one that the window of a decided item reads.
[[nodiscard]] std::uint32_t rows_read(const window::WindowSpec& window, storage::ChunkStore& store,
                                      const shard::ChunkImage& image);

}  // namespace reprise::save
