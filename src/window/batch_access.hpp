#pragma once

#include <reprise/batch.hpp>

#include "window/batch_store.hpp"

#include <cstddef>
#include <memory>
#include <memory_resource>

namespace reprise::window {

/// Gives the library's own code the parts of a `Batch`.
struct BatchAccess {
  [[nodiscard]] static BatchStore& store(const Batch& batch) noexcept {
    return static_cast<BatchStore&>(*batch.view_);
  }
  /// Makes a batch that takes over this store.
  [[nodiscard]] static Batch batch(BatchStore* store) noexcept {
    return Batch(std::unique_ptr<detail::BatchView, detail::BatchDeleter>(store));
  }
  /// A batch with room for n items.
  [[nodiscard]] static Batch make(const Schema& schema, const WindowSpec& window, std::size_t n,
                                  std::pmr::memory_resource* memory, bool unique_frames) {
    auto store = std::make_unique<BatchStore>(schema, window, memory, unique_frames);
    store->reserve(n);
    return batch(store.release());
  }
};

}  // namespace reprise::window
