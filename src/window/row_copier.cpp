#include "window/row_copier.hpp"

#include "base/parallel.hpp"

namespace reprise::window {
namespace {

/// The least that one thread of a parallel gather copies: these bytes or these items, whichever is
/// less.
constexpr std::size_t kGatherGrainBytes = 262144;
constexpr std::size_t kGatherGrainItems = 16;

}  // namespace

/// The pins keep the rows unchanged (I1, I2).
void RowCopier::copy(std::span<const storage::Place> places, std::span<const std::byte*> rows,
                     const Targets& targets, const detail::BatchView& batch,
                     std::size_t offset) noexcept {
  for (std::size_t i = 0; i < places.size(); ++i) {
    rows[i] = store_.row(places[i].chunk, places[i].row);
  }
  read_ahead_.before(store_, rows.first(places.size()), places);
  copy_rows(rows.first(places.size()), targets, batch, offset);
  read_ahead_.after();
}

void RowCopier::copy_rows(std::span<const std::byte* const> rows, const Targets& targets,
                          const detail::BatchView& batch, std::size_t offset) const noexcept {
  if (rows.size() * gather_.item_bytes() < parallel_bytes_) {
    gather_.items(rows, targets, batch, offset);
    return;
  }
  const std::size_t grain = std::clamp<std::size_t>(
      kGatherGrainBytes / std::max<std::size_t>(gather_.item_bytes(), 1), 1, kGatherGrainItems);
  try {
    base::parallel_blocks(rows.size(), grain, [&](std::size_t begin, std::size_t end) {
      gather_.items(rows.subspan(begin, end - begin), targets, batch, offset + begin);
    });
  } catch (...) {
    // Sharing the work among threads needs memory, and none is left. Copying needs no memory, so
    // this thread copies everything, and the draw is not lost.
    gather_.items(rows, targets, batch, offset);
  }
}

}  // namespace reprise::window
