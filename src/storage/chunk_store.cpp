#include "storage/chunk_store.hpp"

#include "base/check.hpp"

#include <variant>

namespace reprise::storage {
namespace {

std::size_t whole_lines(std::size_t bytes) noexcept {
  return (bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
}

bool in_memory(const Storage& storage) noexcept {
  return std::holds_alternative<Memory>(storage);
}

}  // namespace

ChunkStore::ChunkStore(std::size_t chunks, std::uint32_t chunk_rows, std::size_t row_stride,
                       bool with_item_numbers, std::size_t state_stride, const Storage& storage)
    : chunk_rows_(chunk_rows),
      row_stride_(row_stride),
      chunk_bytes_(whole_lines(chunk_rows * row_stride)),
      memory_(in_memory(storage) ? base::Region::map(chunks * chunk_bytes_) : base::Region()),
      file_(in_memory(storage) ? base::MappedFile()
                               : base::MappedFile::make(std::get<MappedFile>(storage).path,
                                                        chunks * chunk_bytes_)),
      first_row_(in_memory(storage) ? memory_.data() : file_.data()),
      priorities_(chunks * chunk_rows),
      item_numbers_(with_item_numbers ? chunks * chunk_rows : 0),
      chunks_(chunks),
      state_stride_(state_stride),
      states_(base::Region::map(chunks * chunk_rows * state_stride)) {}

void ChunkStore::expect_full(std::uint32_t first, std::uint32_t chunks) const noexcept {
  memory_.expect_full(first * chunk_bytes_, in_file() ? 0 : chunks * chunk_bytes_);
  const std::size_t rows = chunk_rows();
  priorities_.expect_full(first * rows, chunks * rows);
  item_numbers_.expect_full(first * rows, item_numbers_.size() == 0 ? 0 : chunks * rows);
}

void ChunkStore::restore_states(std::uint32_t chunk, std::uint32_t states) noexcept {
  chunks_[chunk].states = chunks_[chunk].states_touched = states;
  // Relaxed: statistics.
  states_touched_.fetch_add(states, std::memory_order_relaxed);
}

StateNumber ChunkStore::take_state(std::uint32_t chunk) noexcept {
  Chunk& words = chunks_[chunk];
  const std::uint32_t taken = words.states++;
  REPRISE_ASSERT(taken < chunk_rows());
  if (taken == words.states_touched) {
    ++words.states_touched;
    // Relaxed: statistics.
    states_touched_.fetch_add(1, std::memory_order_relaxed);
  }
  return chunk * chunk_rows() + taken;
}

}  // namespace reprise::storage
