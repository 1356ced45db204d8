#pragma once

#include <reprise/detail/batch_view.hpp>
#include <reprise/schema.hpp>

#include "window/window_spec.hpp"

#include <cstddef>
#include <memory_resource>
#include <vector>

namespace reprise::window {

/// Owns the columns of a batch, in one block of a memory resource, where each column begins on a
/// cache line. One thread at a time.
class BatchStore final : public detail::BatchView {
 public:
  /// No memory is taken before `reserve`.
  BatchStore(const Schema& schema, const window::WindowSpec& window,
             std::pmr::memory_resource* memory, bool unique = false);
  ~BatchStore();
  BatchStore(const BatchStore&) = delete;
  BatchStore& operator=(const BatchStore&) = delete;

  /// Makes room for n items; if that needs new memory, contents are lost. Throws
  /// std::invalid_argument, with nothing changed, for 0 and for more than the machine's memory.
  void reserve(std::size_t n);

  /// Throws std::invalid_argument, which names the call, unless the batch is of this schema and
  /// window, and has the slots [offset, offset + n).
  void check_places(const char* call, const Schema& schema, const window::WindowSpec& window,
                    std::size_t offset, std::size_t n) const;
  /// Fills all columns of a slot but key and probability with zeros. A length of 0 marks a slot
  /// without an item.
  void clear(std::size_t place) noexcept;
  /// The bytes of memory that a batch of n items needs. Throws as `reserve`.
  [[nodiscard]] std::size_t block_bytes(std::size_t n) const;
  /// Makes this a batch of n items in a block of `block_bytes(n)` bytes, which the caller owns, and
  /// which must outlive the batch. If the block is not aligned to 8 bytes, only `copy_from` may
  /// read the batch.
  void lay_over(std::byte* block, std::size_t n) noexcept;
  /// Copies the first `count` items of a batch with the same columns to slots [offset, offset +
  /// count), which must exist. The other batch's columns need not be aligned.
  void copy_from(const BatchStore& other, std::size_t count, std::size_t offset) noexcept;

  [[nodiscard]] const Schema& schema() const noexcept { return schema_; }
  [[nodiscard]] const window::WindowSpec& window() const noexcept { return window_; }

  /// How many items of the batch under way a `MixedSampler` has drawn into this batch.
  std::size_t begun = 0;

 private:
  /// The bytes that an item has in column `which` of the field, if the batch has that column.
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
