#pragma once

#include <reprise/detail/batch_view.hpp>
#include <reprise/schema.hpp>

#include "window/window_spec.hpp"

#include <cstddef>
#include <memory_resource>
#include <vector>

namespace reprise::window {

/// Owns the columns of a batch: one block of a memory resource, each column on its own cache line.
/// One thread at a time.
class BatchStore final : public detail::BatchView {
 public:
  /// No memory is taken before `reserve`.
  BatchStore(const Schema& schema, const window::WindowSpec& window,
             std::pmr::memory_resource* memory, bool unique = false);
  ~BatchStore();
  BatchStore(const BatchStore&) = delete;
  BatchStore& operator=(const BatchStore&) = delete;

  /// Makes room for n items; contents are lost if that needs new memory. std::invalid_argument for
  /// 0 or for more than the machine's memory holds; the batch is then unchanged.
  void reserve(std::size_t n);

  /// Throws std::invalid_argument, which names the call, unless the batch is of this schema and
  /// window, and has the slots [offset, offset + n).
  void check_places(const char* call, const Schema& schema, const window::WindowSpec& window,
                    std::size_t offset, std::size_t n) const;
  /// Fills all columns of a slot but key and probability with zeros; its length of 0 marks that
  /// there is no item.
  void clear(std::size_t place) noexcept;
  /// The bytes of memory that a batch of n items needs. std::invalid_argument as `reserve`.
  [[nodiscard]] std::size_t block_bytes(std::size_t n) const;
  /// Makes this a batch of n items in a block of `block_bytes(n)` bytes, which the caller owns, and
  /// which must outlive the batch. If it is not aligned to 8, only `copy_from` may read the batch.
  void lay_over(std::byte* block, std::size_t n) noexcept;
  /// Copies the first `count` items of a batch with the same columns to slots from `offset` on,
  /// which must exist. The other batch's columns need not be aligned.
  void copy_from(const BatchStore& other, std::size_t count, std::size_t offset) noexcept;

  [[nodiscard]] const Schema& schema() const noexcept { return schema_; }
  [[nodiscard]] const window::WindowSpec& window() const noexcept { return window_; }

  /// Items that a `MixedSampler` has drawn into the batch since it began to fill it.
  std::size_t begun = 0;

 private:
  /// Bytes per item that column `which` of the field has, or would have.
  [[nodiscard]] std::size_t item_bytes(int which, const FieldSpec& spec) const;
  void lay_out(std::byte* block, std::size_t n) noexcept;
  void release() noexcept;

  const Schema schema_;
  const window::WindowSpec window_;
  std::pmr::memory_resource* const memory_;
  std::vector<Column> columns_;
  std::byte* block_ = nullptr;
  std::size_t block_bytes_ = 0;
};

}  // namespace reprise::window
