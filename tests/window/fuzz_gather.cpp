// A libFuzzer target that gathers windows of a chunk with damaged compressed frames.
#include <reprise/schema.hpp>
#include <reprise/window.hpp>

#include "storage/chunk_store.hpp"
#include "storage/frame_codec.hpp"
#include "storage/row_layout.hpp"
#include "window/batch_store.hpp"
#include "window/gather.hpp"
#include "window/window_spec.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using reprise::storage::FrameRef;
using reprise::storage::ItemHeader;
using Bytes = std::span<const std::byte>;

/// Gathers every window of a chunk whose frame room and frame places come from the input.
void gather(Bytes bytes, bool sequences, bool unique) {
  constexpr std::uint32_t kRows = 8;
  constexpr std::size_t kFrame = 512;
  using reprise::storage::RowLayout;
  reprise::Schema schema;
  schema.compress(schema.observation<std::uint8_t>("frame", {kFrame}));
  const RowLayout layout(schema, RowLayout::Frames::ByRef);
  reprise::storage::ChunkStore store(1, {.rows = kRows,
                                         .row_bytes = layout.stride(),
                                         .frame_bytes = layout.frame_bytes(),
                                         .last_ref = layout.compressed().back().offset});
  const reprise::Window window =
      sequences ? reprise::Window(reprise::Sequences{.length = 3, .n_step = 2, .frame_stack = 2})
                : reprise::Window(reprise::Transitions{.n_step = 2, .frame_stack = 3});
  const reprise::window::WindowSpec spec(window);
  const auto gather = spec.make_gather(schema, layout, store);
  std::vector<const std::byte*> rows;
  for (std::uint32_t row = 0; row < kRows; ++row) {
    FrameRef ref{row * 16, 16};
    std::memcpy(&ref, bytes.data(), std::min(sizeof(ref), bytes.size()));
    bytes = bytes.subspan(std::min(sizeof(ref), bytes.size()));
    std::memcpy(store.row(0, row) + layout.fields()[0].offset, &ref, sizeof(ref));
    const std::uint32_t length = std::min(kRows - 1 - row, spec.ahead());
    const ItemHeader header = ItemHeader::make(1, row, length);
    std::memcpy(store.row(0, row), &header, sizeof(header));
    if (length != 0) {
      rows.push_back(store.row(0, row));
    }
  }
  const std::span<std::byte> room = store.frame_room(0);
  std::copy_n(bytes.begin(), std::min(bytes.size(), room.size()), room.begin());
  reprise::window::BatchStore batch(schema, spec, nullptr, unique);
  batch.reserve(rows.size());
  gather->items(rows, spec.targets(), batch, 0);
  // The buffer is on the heap, and has exactly the size of the observation.
  std::vector<std::byte> frame(kFrame);
  gather->copy_observation(0, rows.back(), frame.data());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size != 0) {
    gather(std::as_bytes(std::span(data, size)).subspan(1), data[0] % 2U != 0,
           data[0] / 2U % 2U != 0);
  }
  return 0;
}
