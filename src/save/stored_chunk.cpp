#include "save/stored_chunk.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace reprise::save {

using storage::ItemHeader;

std::uint32_t rows_read(const window::WindowSpec& window, storage::ChunkStore& store,
                        const shard::ChunkImage& image) {
  const float* const priorities = store.priorities(image.chunk);
  const std::uint32_t reach = window.reach();
  std::uint32_t rows = image.ingested;
  for (std::uint32_t row = image.ingested - std::min(reach, image.ingested); row < image.ingested;
       ++row) {
    if (storage::is_item(priorities[row])) {
      ItemHeader header;
      std::memcpy(&header, store.row(image.chunk, row), sizeof(header));
      rows = std::max(rows, row + header.length() + 1);
    }
  }
  return rows;
}

std::uint32_t states_kept(storage::ChunkStore& store, const shard::ChunkImage& image) {
  const float* const priorities = store.priorities(image.chunk);
  return store.state_stride() == 0
             ? 0
             : static_cast<std::uint32_t>(
                   std::count_if(priorities, priorities + image.ingested, storage::is_item));
}

StoredChunk::StoredChunk(const buffer::Format& format, storage::ChunkStore& store,
                         const shard::ChunkImage& image) {
  const std::size_t stride = store.row_stride();
  rows = image.closed ? store.chunk_rows() : rows_read(format.window, store, image);
  zeros_.resize(stride);
  const std::uint32_t whole = image.closed ? rows : image.ingested;
  const bool copied = !format.chunk_layout.mutable_fields().empty();
  if (copied) {
    copy_rows(format, store, image, whole);
  } else {
    parts.emplace_back(store.row(image.chunk, 0), whole * stride);
  }
  for (std::uint32_t row = whole; row < rows && !copied; ++row) {
    // Only the observations of the last row are complete.
    const std::size_t end = row + 1 == rows ? format.chunk_layout.observations_end() : stride;
    const std::size_t begin = format.chunk_layout.headers_end();
    parts.push_back(std::span<const std::byte>(zeros_).first(begin));
    parts.emplace_back(store.row(image.chunk, row) + begin, end - begin);
    parts.push_back(std::span<const std::byte>(zeros_).first(stride - end));
  }
  parts.push_back(std::as_bytes(std::span(store.priorities(image.chunk), image.ingested)));
  if (const std::uint64_t* const numbers = store.item_numbers(image.chunk, 0); numbers != nullptr) {
    parts.push_back(std::as_bytes(std::span(numbers, image.ingested)));
  }
  if (const std::uint32_t states = states_kept(store, image); states != 0) {
    parts.emplace_back(store.state(image.chunk * store.chunk_rows()),
                       states * store.state_stride());
  }
  if (const std::uint32_t frames =
          store.frames_end(image.chunk, rows_read(format.window, store, image));
      frames != 0) {
    parts.push_back(store.frame_room(image.chunk).first(frames));
  }
}

/// Copies the rows into `copied_`. Of open steps it reads only what the windows of decided items
/// read, because the writer may be writing the rest.
void StoredChunk::copy_rows(const buffer::Format& format, storage::ChunkStore& store,
                            const shard::ChunkImage& image, std::uint32_t whole) {
  const storage::RowLayout& layout = format.chunk_layout;
  const std::size_t stride = layout.stride();
  copied_.resize(rows * stride);
  for (std::uint32_t row = 0; row < rows; ++row) {
    const bool decided = row < whole;
    const std::byte* const from = store.row(image.chunk, row);
    std::byte* const to = copied_.data() + row * stride;
    const std::size_t begin = decided ? 0 : layout.headers_end();
    // Only the observations of the last row are complete.
    const bool complete = decided || row + 1 < rows;
    const std::size_t end = complete ? layout.mutable_begin() : layout.observations_end();
    std::memcpy(to + begin, from + begin, end - begin);
    if (complete) {
      storage::read_consistent(*store.version(from), [&] {
        for (const storage::MutableField& field : layout.mutable_fields()) {
          storage::get_value(from + field.offset, to + field.offset, field.bytes);
        }
      });
    }
  }
  parts.emplace_back(copied_);
}

}  // namespace reprise::save
