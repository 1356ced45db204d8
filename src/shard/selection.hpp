#pragma once

#include <reprise/selector.hpp>

#include "shard/row_index.hpp"
#include "storage/chunk_store.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace reprise::shard {

/// The shard selectors of a shard, as one index of its rows.
///
/// Externally synchronised by the shard's lock.
class Selection final : public RowIndex {
 public:
  using Rules = std::span<const std::unique_ptr<SelectorRule>>;

  /// The rules have to outlive this object.
  Selection(storage::ChunkStore& store, Rules rules, std::size_t leaves);

  [[nodiscard]] std::size_t size() const noexcept { return selectors_.size(); }
  [[nodiscard]] ShardSelector& operator[](std::size_t selector) const noexcept {
    return *selectors_[selector];
  }
  /// Hides items from every selector until they are deselected.
  void hide(std::span<const std::uint32_t> leaves) noexcept;
  /// Hides items that must not be drawn any more, at most `kItemsAtATime`, and forgets their
  /// weights.
  void drop(std::span<const std::uint32_t> leaves) noexcept;

  void enter(const Rows& rows, std::span<const SelectorSummary> others) noexcept override;
  void leave(const Rows& rows) noexcept override;
  void removed(std::uint32_t leaf, bool exhausted) noexcept override;
  void store(std::span<const std::uint32_t> leaves, ShardImage& image,
             std::size_t at) const noexcept override;
  void restore(std::span<const std::uint32_t> leaves, const ShardImage& image,
               std::size_t at) noexcept override;
  [[nodiscard]] Memory memory() const noexcept override;

 private:
  storage::ChunkStore& store_;
  const Rules rules_;
  const std::size_t leaves_;
  std::vector<std::unique_ptr<ShardSelector>> selectors_;
};

}  // namespace reprise::shard
