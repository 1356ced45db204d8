#include "storage/chunk_store.hpp"

#include "base/check.hpp"
#include "storage/frame_codec.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

namespace reprise::storage {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t whole(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

ChunkStore::ChunkStore(std::size_t chunks, const ChunkSizes& sizes, const Storage& storage)
    : chunk_rows_(sizes.rows),
      row_stride_(sizes.row_bytes),
      chunk_bytes_(whole(sizes.rows * sizes.row_bytes, base::kCacheLine)),
      frame_bytes_(sizes.frame_bytes),
      last_ref_(sizes.last_ref),
      policy_at_(sizes.policy_at),
      frame_room_bytes_(whole(sizes.rows * sizes.frame_bytes, kPage)),
      rows_(chunks * chunk_bytes_, storage),
      frames_(chunks * frame_room_bytes_, storage),
      priorities_(chunks * sizes.rows),
      item_numbers_(sizes.item_numbers ? chunks * sizes.rows : 0),
      versions_(base::Region::map(sizes.versions ? chunks * sizes.rows * sizeof(Version) : 0)),
      chunks_(chunks),
      state_stride_(sizes.state_bytes),
      states_(base::Region::map(chunks * sizes.rows * sizes.state_bytes)) {}

void ChunkStore::expect_full(std::uint32_t first, std::uint32_t chunks) const noexcept {
  rows_.expect_full(first * chunk_bytes_, chunks * chunk_bytes_);
  const std::size_t rows = chunk_rows();
  priorities_.expect_full(first * rows, chunks * rows);
  item_numbers_.expect_full(first * rows, item_numbers_.size() == 0 ? 0 : chunks * rows);
}

std::uint32_t ChunkStore::changes(std::uint32_t chunk) const noexcept {
  if (versions_.size() == 0) {
    return 0;
  }
  const Version* const first = version(rows_.data() + chunk * chunk_bytes_);
  return std::transform_reduce(first, first + chunk_rows(), 0U, std::plus<>(),
                               [](const Version& version) { return version.number(); });
}

std::uint32_t ChunkStore::frames_end(std::uint32_t chunk, std::uint32_t rows) noexcept {
  if (frame_bytes_ == 0 || rows == 0) {
    return 0;
  }
  FrameRef ref;
  std::memcpy(&ref, row(chunk, rows - 1) + last_ref_, sizeof(ref));
  return static_cast<std::uint32_t>(std::min(ref.end(), rows * frame_bytes_));
}

void ChunkStore::will_need_frames(std::uint32_t chunk, std::uint32_t first,
                                  std::uint32_t last) noexcept {
  const std::byte* const room = frame_room(chunk).data();
  const std::uint32_t begin = frames_end(chunk, first);
  frames_.will_need(room, frame_bytes_);
  // Damaged places of frames in the rows may make the end less than the beginning.
  frames_.will_need(room + begin, std::max(begin, frames_end(chunk, last + 1)) - begin);
}

void ChunkStore::note_frames(std::uint32_t chunk, std::uint32_t rows,
                             std::uint32_t bytes) noexcept {
  // Relaxed: statistics.
  Chunk& words = chunks_[chunk];
  words.frame_rows.store(rows, std::memory_order_relaxed);
  words.frame_bytes.store(bytes, std::memory_order_relaxed);
  if (bytes > words.frame_bytes_touched.load(std::memory_order_relaxed)) {
    words.frame_bytes_touched.store(bytes, std::memory_order_relaxed);
  }
}

ChunkStore::FrameTotals ChunkStore::frame_totals() const noexcept {
  FrameTotals totals;
  if (frame_bytes_ == 0) {
    return totals;
  }
  for (const Chunk& chunk : chunks_) {
    // Relaxed: statistics.
    totals.compressed += chunk.frame_bytes.load(std::memory_order_relaxed);
    totals.uncompressed += chunk.frame_rows.load(std::memory_order_relaxed) * frame_bytes_;
    totals.touched += whole(chunk.frame_bytes_touched.load(std::memory_order_relaxed), kPage);
  }
  return totals;
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
