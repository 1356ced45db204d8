#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace reprise::base {

/// A range of zeroed memory that takes no physical page before it is touched. Pages are small, so
/// that the memory in use is the memory touched; `expect_full` asks for huge pages where they will
/// be filled.
///
/// Thread safety: as for a plain array.
class Region {
 public:
  /// Large regions start on a multiple of this, and smaller ones on a page.
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20U;

  Region() noexcept = default;
  Region(Region&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Region& operator=(Region&& other) noexcept {
    Region taken(std::move(other));
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  /// Throws `std::bad_alloc` if the address space cannot be had. 0 bytes give an empty region.
  static Region map(std::size_t bytes);

  /// Advice: bytes [first, first + count) will all be touched, so the huge pages that lie within
  /// are asked for. Call it before they are touched.
  void expect_full(std::size_t first, std::size_t count) const noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  Region(std::byte* data, std::size_t size) noexcept : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// An array of n elements whose bytes are zero at first, touched lazily.
///
/// The elements are implicitly created in the zeroed region, so T must be trivial.
template <class T>
class LazyArray {
  static_assert(std::is_trivially_destructible_v<T>);
  static_assert(std::is_aggregate_v<T> || std::is_scalar_v<T> ||
                    std::is_trivially_copy_constructible_v<T>,
                "T must be an implicit-lifetime type");
  static_assert(alignof(T) <= 128, "the alignment that every Region has");

 public:
  LazyArray() noexcept = default;
  /// Throws `std::bad_alloc` if n elements do not fit the address space.
  explicit LazyArray(std::size_t n) : region_(Region::map(checked_bytes(n))) {}

  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data()[i]; }
  [[nodiscard]] T* data() noexcept { return reinterpret_cast<T*>(region_.data()); }
  [[nodiscard]] const T* data() const noexcept {
    return reinterpret_cast<const T*>(region_.data());
  }
  [[nodiscard]] std::size_t size() const noexcept { return bytes() / sizeof(T); }
  /// Elements [first, first + count) will all be touched; see `Region::expect_full`.
  void expect_full(std::size_t first, std::size_t count) const noexcept {
    region_.expect_full(first * sizeof(T), count * sizeof(T));
  }
  /// Reserved address space.
  [[nodiscard]] std::size_t bytes() const noexcept { return region_.size(); }

 private:
  static std::size_t checked_bytes(std::size_t n) {
    if (n > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw std::bad_alloc();
    }
    return n * sizeof(T);
  }

  Region region_;
};

}  // namespace reprise::base
