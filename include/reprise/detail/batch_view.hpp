#pragma once

#include <reprise/item.hpp>
#include <reprise/schema.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// The inline part of a batch: the places of its columns. Not for users.
namespace reprise::detail {

struct BatchView {
  static constexpr int kNow = 0;
  static constexpr int kNext = 1;
  static constexpr int kReturns = 2;
  static constexpr int kFrames = 3;

  struct Column {
    /// Addresses of now, next, returns and frames, by the numbers above; null for those that the
    /// column does not have.
    std::byte* data[4] = {nullptr, nullptr, nullptr, nullptr};
    std::size_t elements = 0;  ///< Elements per item, stack included.
    std::uint32_t signature = 0;
  };

  /// Where the stacks of the items lie: those of item i begin begins[i] frames after first + i *
  /// stride_bytes.
  struct Stacks {
    std::byte* first = nullptr;
    std::size_t items = 0;
    std::size_t stride_bytes = 0;
    std::size_t stack_bytes = 0;  ///< The size of all stacks of an item.
    std::size_t frame_bytes = 0;
    /// Null if the stacks of every item begin at frame 0. A value above `last` counts as `last`.
    const std::uint32_t* begins = nullptr;
    std::uint32_t last = 0;
    std::size_t step_bytes = 0;  ///< Distance from the stack of a step to that of the next one.
    std::size_t step_stack_bytes = 0;  ///< The size of the stack of one step.
  };

  std::size_t size = 0;
  std::size_t capacity = 0;
  const Column* columns = nullptr;
  std::size_t column_count = 0;
  std::uint32_t stack = 1;     ///< Frames in a stack.
  std::uint32_t frames = 1;    ///< Different frames in the stacks of an item.
  std::uint32_t steps = 1;     ///< Steps of an item that have stacks, for now and next.
  bool unique_frames = false;  ///< Whether frames are stored once each, not in stacks.
  std::uint32_t targets = 1;   ///< Number of discounts of an item, and of returns per reward.
  float* discounts = nullptr;
  float* weights = nullptr;
  double* probabilities = nullptr;
  ItemKey* keys = nullptr;
  std::uint64_t* episodes = nullptr;
  std::uint64_t* positions = nullptr;
  std::uint32_t* lengths = nullptr;
  // One value for each step of each item, with `SequenceEnd::Continue`; null otherwise.
  bool* is_first = nullptr;
  bool* terminated = nullptr;
  bool* truncated = nullptr;

  /// The values of `column`, which is one of the three above. Throws `std::logic_error` if the
  /// batch has no such column.
  [[nodiscard]] std::span<bool> stream_column(bool* column) const {
    if (column == nullptr) {
      refuse_stream_column();
    }
    return {column, size * steps};
  }

  template <class T, class FieldType>
  [[nodiscard]] std::span<T> column(int which, FieldType field) const {
    const std::size_t index = field.index();
    if (index >= column_count || columns[index].signature != kSignature<FieldType>) {
      refuse(index, kSignature<FieldType>);
    }
    const std::size_t elements = size * per_item(which, columns[index]);
    if (elements != 0 && columns[index].data[which] == nullptr) {
      refuse_missing(which);
    }
    return {reinterpret_cast<T*>(columns[index].data[which]), elements};
  }

  [[nodiscard]] std::span<std::byte> bytes(int which, AnyField field) const;

  [[nodiscard]] std::vector<std::size_t> shape(std::size_t index, std::uint32_t wanted) const;

  /// `which` is kNow or kNext.
  [[nodiscard]] Stacks stacks(int which, AnyField field) const;

 private:
  [[nodiscard]] std::size_t per_item(int which, const Column& column) const noexcept {
    return which == kReturns  ? targets
           : which == kFrames ? column.elements / (std::size_t{steps} * stack) * frames
                              : column.elements;
  }
  /// Throws `std::invalid_argument` if fields of this role have no column `which`.
  void check_role(int which, AnyField field) const;
  [[noreturn]] void refuse(std::size_t index, std::uint32_t wanted) const;
  [[noreturn]] static void refuse_missing(int which);
  [[noreturn]] static void refuse_stream_column();
};

struct BatchDeleter {
  void operator()(BatchView* batch) const noexcept;
};

}  // namespace reprise::detail
