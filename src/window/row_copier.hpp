#pragma once

#include "base/mapped_file.hpp"
#include "storage/chunk_store.hpp"
#include "window/gather.hpp"
#include "window/window_spec.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace reprise::window {

/// Asks the system to read the rows and compressed frames of a batch from a mapped file in
/// parallel, because copying alone would wait for one page after the other.
///
/// The request is a system call per item, which costs more than copying a small row that is in
/// memory. So it is made only if the previous batch had to be read from the disk. One thread at a
/// time.
class ReadAhead {
 public:
  ReadAhead(const storage::ChunkStore& store, const WindowSpec& window) noexcept
      : behind_(window.behind()), ahead_(window.reach()), in_file_(store.in_file()) {}

  /// Call it before a batch is copied. rows[i] is the row at places[i], whose chunk is pinned.
  void before(storage::ChunkStore& store, std::span<const std::byte* const> rows,
              std::span<const storage::Place> places) noexcept {
    if (!in_file_) {
      return;
    }
    reads_ = base::disk_reads();
    for (std::size_t i = 0; cold_ && i < rows.size(); ++i) {
      const std::uint32_t behind = std::min(behind_, places[i].row);
      const std::uint32_t ahead = std::min(ahead_, store.chunk_rows() - 1 - places[i].row);
      store.will_need(rows[i] - behind * store.row_stride(),
                      (behind + 1 + ahead) * store.row_stride());
    }
    // The places of frames are in the rows, so the rows are requested before the frames.
    for (std::size_t i = 0; cold_ && store.has_frames() && i < rows.size(); ++i) {
      storage::ItemHeader header;
      std::memcpy(&header, rows[i], sizeof(header));
      const std::uint32_t row = places[i].row;
      const std::uint64_t behind = std::min<std::uint64_t>(behind_, header.position());
      store.will_need_frames(places[i].chunk, row - static_cast<std::uint32_t>(behind),
                             row + header.length());
    }
  }
  /// Call it after the batch was copied.
  void after() noexcept {
    if (in_file_) {
      cold_ = base::disk_reads() != reads_;
    }
  }

 private:
  const std::uint32_t behind_;
  const std::uint32_t ahead_;
  const bool in_file_;       ///< Otherwise nothing has to be read.
  bool cold_ = false;        ///< Whether copying the last batch read from the disk.
  std::uint64_t reads_ = 0;  ///< Disk reads before this batch.
};

/// Copies the windows of items into batches, with oneTBB's threads if there is much to copy. The
/// items' chunks are pinned, and no lock is held. One thread at a time.
class RowCopier {
 public:
  /// The default of `parallel_bytes`.
  static constexpr std::size_t kParallelBytes = std::size_t{4} << 20U;

  /// `parallel_bytes`: see `SamplerOptions::parallel_gather_bytes`.
  RowCopier(storage::ChunkStore& store, const Gather& gather, const WindowSpec& window,
            std::size_t parallel_bytes) noexcept
      : store_(store),
        gather_(gather),
        parallel_bytes_(parallel_bytes),
        read_ahead_(store, window) {}

  /// Copies the item of places[i] into batch slot offset + i. `rows` is scratch.
  void copy(std::span<const storage::Place> places, std::span<const std::byte*> rows,
            const Targets& targets, const detail::BatchView& batch, std::size_t offset) noexcept;

 private:
  void copy_rows(std::span<const std::byte* const> rows, const Targets& targets,
                 const detail::BatchView& batch, std::size_t offset) const noexcept;

  storage::ChunkStore& store_;
  const Gather& gather_;
  const std::size_t parallel_bytes_;
  ReadAhead read_ahead_;
};

}  // namespace reprise::window
