#pragma once

#include <reprise/detail/batch_view.hpp>
#include <reprise/item.hpp>

#include "storage/chunk_store.hpp"

#include <cstddef>
#include <span>

namespace reprise::window {

/// Receives the rows of a sampler's items, which are then not copied into a batch.
class RowSink {
 public:
  RowSink() = default;
  virtual ~RowSink() = default;
  RowSink(const RowSink&) = delete;
  RowSink& operator=(const RowSink&) = delete;

  /// Item i begins in the row at places[i], and has slot offset + i of the batch. The items' chunks
  /// are pinned, and no lock is held.
  virtual void take(std::span<const storage::Place> places, std::span<const ItemKey> keys,
                    const detail::BatchView& batch, std::size_t offset) noexcept = 0;
};

}  // namespace reprise::window
