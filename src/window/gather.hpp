#pragma once

#include <reprise/detail/batch_view.hpp>
#include <reprise/schema.hpp>

#include "storage/chunk_store.hpp"
#include "storage/mutable_values.hpp"
#include "storage/row_layout.hpp"
#include "window/copy_bytes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace reprise::window {

class WindowSpec;

/// How returns and discounts are computed.
struct Targets {
  std::uint32_t n_step = 0;  ///< Most steps in a return; 0 if there are none.
  float discount = 0.0F;     ///< Gamma per step.
};

/// Copies windows out of rows into the columns of a batch. Stacks, sequences, n-step returns and
/// discounts are computed here, from the rows, and stored nowhere else. Each compressed frame of a
/// window is decompressed once; in the place of a damaged one are zeros. The value of a mutable
/// column is read whole, though other threads may replace it.
///
/// Each kind of window derives a class, made of the parts here (`WindowSpec::make_gather`).
///
/// Thread safety: const after construction, so any thread; different items may be gathered at the
/// same time. The caller holds pins on the chunks, and no lock.
class Gather {
 public:
  /// `layout`: that of rows in chunks. The store must outlive this object.
  Gather(const Schema& schema, const storage::RowLayout& layout, const WindowSpec& window,
         storage::ChunkStore& store);
  virtual ~Gather() = default;
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;

  /// Gathers item i from rows[i], the item's first row, into batch slot offset + i.
  /// `targets`: those of the window, or others with no more steps in a return. The next stop of the
  /// data path is `Shard::unpin`.
  virtual void items(std::span<const std::byte* const> rows, const Targets& targets,
                     const detail::BatchView& batch, std::size_t offset) const noexcept = 0;

  /// Copies the observation of a row of a pinned chunk, which must be published.
  void copy_observation(std::size_t field, const std::byte* row, std::byte* to) const noexcept;

  /// Whether items have values that a copy of their rows may lack: mutable columns, which may be
  /// replaced later, and recurrent states, which are not in rows.
  [[nodiscard]] bool has_values_beside_rows() const noexcept {
    return !mutable_.empty() || !recurrent_.empty();
  }
  /// Copies only such values of the item that begins with `row`, as `items` does.
  void copy_values_beside_rows(const std::byte* row, const detail::BatchView& batch,
                               std::size_t place) const noexcept;

  /// Bytes written per item, if the batch has whole stacks.
  [[nodiscard]] std::size_t item_bytes() const noexcept { return item_bytes_; }

 protected:
  struct Copy {
    std::size_t field;
    std::size_t offset;  ///< Offset in the row, or in the recurrent state.
    std::size_t bytes;   ///< Bytes of one frame.
  };
  /// Consecutive steps of one episode in an item: all steps of the item, unless it goes on across
  /// ends of episodes.
  struct Part {
    const std::byte* row;      ///< The row of the part's first step.
    std::uint64_t position;    ///< The position of that step in the episode.
    std::uint32_t length = 0;  ///< How many steps the part has.
    std::uint32_t at = 0;      ///< How many steps of the item come before the part.
    std::uint32_t beyond = 0;  ///< How many steps the item lacks after the part.
    bool terminated = false;   ///< Whether the last step terminated the episode.
  };
  /// Which stacks a batch has of one window: those of the steps from the first on in `now`, and as
  /// many of later steps in `next`.
  struct Stacks {
    std::int64_t last_frame;  ///< The last step whose frame is in a stack.
    std::int64_t count;       ///< How many stacks `now` has.
    std::int64_t to_next;     ///< How many steps later the stacks in `next` begin.
  };

  void copy_stack(const Copy& copy, const std::byte* row, std::uint64_t position,
                  std::byte* to) const noexcept;
  void copy_frames(const Copy& copy, const Part& part, std::uint32_t last,
                   const detail::BatchView& batch, std::size_t place) const noexcept;
  void unpack_field(const storage::CompressedField& field, const Part& part, const Stacks& stacks,
                    const detail::BatchView& batch, std::size_t place) const noexcept;
  void write_target(const std::byte* row, std::uint32_t length, bool terminated, float discount,
                    const detail::BatchView& batch, std::size_t place) const noexcept;
  void copy_mutable(const std::byte* row, std::uint32_t length, std::uint32_t beyond,
                    const detail::BatchView& batch, std::size_t first) const noexcept;
  void copy_recurrent_state(const std::byte* row, const detail::BatchView& batch,
                            std::size_t place) const noexcept;

  std::vector<Copy> observations_;  ///< Observations that are not compressed.
  std::vector<storage::CompressedField> packed_;
  std::vector<Copy> columns_;
  std::vector<storage::MutableField> mutable_;
  std::vector<Copy> rewards_;
  std::vector<Copy> recurrent_;
  storage::ChunkStore& store_;
  const std::byte* states_;
  std::size_t state_stride_;
  std::size_t discount_offset_ = 0;  ///< Offset of the discount field in a row; 0 if there is none.
  std::size_t stride_;
  // What `ahead`, `behind` and `zeros_before` of the window return.
  std::uint32_t ahead_;
  std::uint32_t behind_;
  bool zeros_before_;
  storage::StreamRows stream_rows_;

 private:
  /// Places of one frame in a batch, `apart` bytes from one to the next.
  struct Places {
    std::byte* first = nullptr;
    std::size_t count = 0;
    std::size_t apart = 0;
  };

  template <class PlacesOf>
  void unpack(const storage::CompressedField& field, const Part& part, std::int64_t last,
              bool streamed, const PlacesOf& places_of) const noexcept;
  void unpack_stacks(const storage::CompressedField& field, const Part& part, const Stacks& stacks,
                     const detail::BatchView& batch, std::size_t place) const noexcept;
  void unpack_frames(const storage::CompressedField& field, const Part& part, std::int64_t last,
                     const detail::BatchView& batch, std::size_t place) const noexcept;

  std::size_t item_bytes_ = 0;
};

inline float load_float(const std::byte* from) noexcept {
  float value = 0.0F;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Inlined, because they run for each item of small rows.

/// Copies the frames up to and including that of `row`, oldest first. In the place of frames before
/// the episode come its first frame or zeros.
inline void Gather::copy_stack(const Copy& copy, const std::byte* row, std::uint64_t position,
                               std::byte* to) const noexcept {
  const std::byte* const from = row + copy.offset;
  for (std::uint32_t lag = behind_; lag > 0; --lag) {
    if (lag > position && zeros_before_) {
      std::memset(to, 0, copy.bytes);
    } else {
      copy_bytes(to, from - std::min<std::uint64_t>(lag, position) * stride_, copy.bytes);
    }
    to += copy.bytes;
  }
  copy_bytes(to, from, copy.bytes);
}

/// Writes the return and the discount of step t, which is in `row`. The return is the sum over
/// k < length of reward[t + k] times the discounts of the steps from t to before t + k. The
/// discount, by which a learner multiplies the value of the observation at t + length, is the
/// product over all these steps. Both are computed in double.
inline void Gather::write_target(const std::byte* row, std::uint32_t length, bool terminated,
                                 float discount, const detail::BatchView& batch,
                                 std::size_t place) const noexcept {
  const auto per_step = [&](std::uint32_t k) {
    const auto gamma = static_cast<double>(discount);
    return discount_offset_ == 0 ? gamma : gamma * load_float(row + k * stride_ + discount_offset_);
  };
  for (const Copy& reward : rewards_) {
    double sum = 0.0;
    double product = 1.0;
    for (std::uint32_t k = 0; k < length; ++k) {
      sum += product * load_float(row + k * stride_ + reward.offset);
      product *= per_step(k);
    }
    auto* const to =
        reinterpret_cast<float*>(batch.columns[reward.field].data[detail::BatchView::kReturns]);
    to[place] = static_cast<float>(sum);
  }
  double product = terminated ? 0.0 : 1.0;
  for (std::uint32_t k = 0; k < length; ++k) {
    product *= per_step(k);
  }
  batch.discounts[place] = static_cast<float>(product);
}

/// Copies the mutable columns of `length` rows to the steps of the batch from number `first` on,
/// and zeros to the `beyond` steps behind them. The values of a row are all of one update.
inline void Gather::copy_mutable(const std::byte* row, std::uint32_t length, std::uint32_t beyond,
                                 const detail::BatchView& batch, std::size_t first) const noexcept {
  const auto column = [&](const storage::MutableField& field, std::size_t k) {
    return batch.columns[field.field].data[detail::BatchView::kNow] + (first + k) * field.bytes;
  };
  const storage::Version* const versions = store_.version(row);
  for (std::uint32_t k = 0; k < length; ++k) {
    storage::read_consistent(versions[k], [&] {
      for (const storage::MutableField& field : mutable_) {
        storage::get_value(row + k * stride_ + field.offset, column(field, k), field.bytes);
      }
    });
  }
  for (const storage::MutableField& field : mutable_) {
    if (beyond != 0) {
      std::memset(column(field, length), 0, beyond * field.bytes);
    }
  }
}

}  // namespace reprise::window
