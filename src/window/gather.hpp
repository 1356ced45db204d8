#pragma once

#include <reprise/detail/batch_view.hpp>
#include <reprise/schema.hpp>

#include "storage/chunk_store.hpp"
#include "storage/row_layout.hpp"
#include "window/window_spec.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::window {

/// Copies windows out of rows into the columns of a batch. Stacks, sequences, n-step returns and
/// discounts are computed here, from the rows, and stored nowhere else. Each compressed frame of a
/// window is decompressed once; a damaged one is all zeros. The value of a mutable column is read
/// whole, though other threads may replace it.
///
/// Thread safety: const after construction, so any thread; different items may be gathered at the
/// same time. The caller holds pins on the chunks, and no lock.
class Gather {
 public:
  /// `layout`: of rows in chunks. The store must outlive this.
  Gather(const Schema& schema, const storage::RowLayout& layout, const WindowSpec& window,
         storage::ChunkStore& store);

  /// Gathers item i from rows[i], the item's own row, into place offset + i of the batch. The next
  /// stop of the data path is `Shard::unpin`.
  void items(std::span<const std::byte* const> rows, const detail::BatchView& batch,
             std::size_t offset) const noexcept;

  /// Copies the observation of a row of a pinned chunk, which must be published.
  void observation(std::size_t field, const std::byte* row, std::byte* to) const noexcept;

  /// Bytes written per item, if stacks are whole.
  [[nodiscard]] std::size_t item_bytes() const noexcept { return item_bytes_; }

 private:
  struct Copy {
    std::size_t field;
    std::size_t offset;  ///< In the row, or in the recurrent state.
    std::size_t bytes;   ///< One frame.
  };
  /// Places of one frame in a batch, `apart` bytes from one to the next.
  struct Places {
    std::byte* first = nullptr;
    std::size_t count = 0;
    std::size_t apart = 0;
  };
  /// The frames of one window: those of steps [-back, length] after the item's own row are there.
  struct Frames {
    const std::byte* row;  ///< The item's own.
    std::int64_t back;
    std::int64_t length;
  };

  void transitions(std::span<const std::byte* const> rows, const detail::BatchView& batch,
                   std::size_t offset) const noexcept;
  void stack(const Copy& copy, const std::byte* row, std::uint64_t position,
             std::byte* to) const noexcept;
  void frames(const Copy& copy, const std::byte* row, const storage::ItemHeader& header,
              const detail::BatchView& batch, std::size_t place) const noexcept;
  template <class PlacesOf>
  void unpack(const storage::CompressedField& field, const Frames& frames, std::int64_t last,
              bool streamed, const PlacesOf& places_of) const noexcept;
  void packed(const storage::CompressedField& field, const std::byte* row,
              const storage::ItemHeader& header, const detail::BatchView& batch,
              std::size_t place) const noexcept;
  void packed_stacks(const storage::CompressedField& field, const Frames& frames,
                     const detail::BatchView& batch, std::size_t place) const noexcept;
  void packed_once(const storage::CompressedField& field, const Frames& frames,
                   const detail::BatchView& batch, std::size_t place) const noexcept;
  void target(const std::byte* row, std::uint32_t length, bool terminated,
              const detail::BatchView& batch, std::size_t place) const noexcept;
  void targets(const std::byte* row, const storage::ItemHeader& header,
               const detail::BatchView& batch, std::size_t place) const noexcept;

  void sequences(std::span<const std::byte* const> rows, const detail::BatchView& batch,
                 std::size_t offset) const noexcept;
  void steps(const Copy& copy, const std::byte* row, std::uint32_t length,
             std::byte* to) const noexcept;
  void stacks(const Copy& copy, const std::byte* row, std::uint64_t position, std::uint32_t length,
              std::byte* to) const noexcept;
  void mutable_steps(const std::byte* row, std::uint32_t length, std::size_t steps,
                     const detail::BatchView& batch, std::size_t place) const noexcept;
  void recurrent_state(const std::byte* row, const detail::BatchView& batch,
                       std::size_t place) const noexcept;

  std::vector<Copy> observations_;  ///< Those that are not compressed.
  std::vector<storage::CompressedField> packed_;
  std::vector<Copy> columns_;
  std::vector<storage::MutableField> mutable_;
  std::vector<Copy> rewards_;
  std::vector<Copy> recurrent_;
  const storage::ChunkStore& store_;
  const std::byte* states_;
  std::size_t state_stride_;
  std::size_t discount_offset_ = 0;  ///< Offset of the discount field in a row; 0 if there is none.
  std::size_t stride_;
  std::size_t item_bytes_ = 0;
  // As the window says.
  std::uint32_t ahead_;
  std::uint32_t behind_;
  std::uint32_t n_step_;
  float discount_;
  bool has_steps_;
  bool zeros_before_;
};

}  // namespace reprise::window
