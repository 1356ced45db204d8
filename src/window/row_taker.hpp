#pragma once

#include <reprise/item.hpp>

#include "storage/chunk_store.hpp"

#include <span>

namespace reprise::window {

/// What a sampler shows the rows of its items to, in the place of a batch.
class RowTaker {
 public:
  RowTaker() = default;
  virtual ~RowTaker() = default;
  RowTaker(const RowTaker&) = delete;
  RowTaker& operator=(const RowTaker&) = delete;

  /// Item i begins in the row at places[i]. The items' chunks are pinned, and no lock is held.
  virtual void take(std::span<const storage::Place> places,
                    std::span<const ItemKey> keys) noexcept = 0;
};

}  // namespace reprise::window
