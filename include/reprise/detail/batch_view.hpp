#pragma once

#include <reprise/field.hpp>
#include <reprise/item_key.hpp>

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

  struct Column {
    std::byte* data[3] = {nullptr, nullptr,
                          nullptr};  ///< now, next, returns; null if there is none.
    std::size_t elements = 0;        ///< Per item, stack included.
    std::uint32_t signature = 0;
  };

  std::size_t size = 0;
  std::size_t capacity = 0;
  const Column* columns = nullptr;
  std::size_t column_count = 0;
  float* discounts = nullptr;
  float* weights = nullptr;
  double* probabilities = nullptr;
  ItemKey* keys = nullptr;
  std::uint64_t* episodes = nullptr;
  std::uint64_t* positions = nullptr;
  std::uint32_t* lengths = nullptr;

  template <class T, class FieldType>
  [[nodiscard]] std::span<T> column(int which, FieldType field) const {
    const std::size_t index = field.index();
    if (index >= column_count || columns[index].signature != kSignature<FieldType>) {
      refuse(index, kSignature<FieldType>);
    }
    const std::size_t elements = which == kReturns ? size : size * columns[index].elements;
    if (elements != 0 && columns[index].data[which] == nullptr) {
      refuse_returns();
    }
    return {reinterpret_cast<T*>(columns[index].data[which]), elements};
  }

  [[nodiscard]] std::span<std::byte> bytes(int which, AnyField field) const;

  [[nodiscard]] std::vector<std::size_t> shape(std::size_t index, std::uint32_t wanted) const;

 private:
  [[noreturn]] void refuse(std::size_t index, std::uint32_t wanted) const;
  [[noreturn]] static void refuse_returns();
};

struct BatchDeleter {
  void operator()(BatchView* batch) const noexcept;
};

}  // namespace reprise::detail
