#include "storage/chunk_store.hpp"

namespace reprise::storage {
namespace {

std::size_t whole_lines(std::size_t bytes) noexcept {
  return (bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
}

}  // namespace

ChunkStore::ChunkStore(std::size_t chunks, std::uint32_t chunk_rows, std::size_t row_stride,
                       bool with_order)
    : chunk_rows_(chunk_rows),
      row_stride_(row_stride),
      chunk_bytes_(whole_lines(chunk_rows * row_stride)),
      rows_(base::Region::map(chunks * chunk_bytes_)),
      priorities_(chunks * chunk_rows),
      order_(with_order ? chunks * chunk_rows : 0),
      chunks_(chunks) {}

}  // namespace reprise::storage
