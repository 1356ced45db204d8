#pragma once

#include "record/bytes.hpp"
#include "record/errors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise::record {

/// Values that are written as they lie in memory: numbers, and structs and arrays of them in which
/// no byte is padding.
template <class T>
concept Stored = std::is_trivially_copyable_v<T> &&
    (std::has_unique_object_representations_v<T> || std::is_floating_point_v<T>);

/// Appends numbers, lists and runs of bytes to one array, little-endian and without padding.
///
/// Thread safety: as for a plain object.
class Encoder {
 public:
  void u8(std::uint8_t number) { value(number); }
  void u32(std::uint32_t number) { value(number); }
  void u64(std::uint64_t number) { value(number); }
  /// A number, or a struct of numbers without padding.
  template <Stored T>
  void value(const T& value) {
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  /// Writes the number of values as u32, then the values.
  template <class Values>
  void list(const Values& values) {
    u32(checked_count(std::size(values)));
    bytes(std::as_bytes(std::span(values)));
  }
  /// Only the bytes: the reader has to know their number.
  void bytes(Bytes bytes);

  [[nodiscard]] Bytes encoded() const noexcept { return bytes_; }
  [[nodiscard]] std::vector<std::byte> take() && noexcept { return std::move(bytes_); }

 private:
  static std::uint32_t checked_count(std::size_t count);

  std::vector<std::byte> bytes_;
};

/// Reads the output of an `Encoder`. Throws `CheckpointError` (`Damaged`), with the file and the
/// offset in it, if a value would go beyond the remaining bytes. Nothing is allocated for a length
/// before it was checked.
///
/// Thread safety: as for a plain object.
class Decoder {
 public:
  /// `bytes` must outlive the decoder and the views that it gives. `offset`: the place of their
  /// first byte in the file (or, if the file is compressed, in its decompressed contents).
  Decoder(Bytes bytes, std::string file, std::uint64_t offset = 0)
      : bytes_(bytes), file_(std::move(file)), offset_(offset) {}

  [[nodiscard]] std::uint8_t u8() { return value<std::uint8_t>(); }
  [[nodiscard]] std::uint32_t u32() { return value<std::uint32_t>(); }
  [[nodiscard]] std::uint64_t u64() { return value<std::uint64_t>(); }
  template <Stored T>
  [[nodiscard]] T value() {
    T value{};
    std::memcpy(&value, bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  template <Stored T>
  [[nodiscard]] std::vector<T> list() {
    return values<T>(count(sizeof(T)));
  }
  /// Reads `count` values that were written without their number.
  template <Stored T>
  [[nodiscard]] std::vector<T> values(std::uint64_t count) {
    const Bytes all = bytes(count * sizeof(T));
    std::vector<T> result(static_cast<std::size_t>(count));
    std::copy(all.begin(), all.end(), std::as_writable_bytes(std::span(result)).begin());
    return result;
  }
  /// Reads a list of characters.
  [[nodiscard]] std::string_view string(std::size_t max_bytes);
  [[nodiscard]] Bytes bytes(std::uint64_t n);
  /// Reads the number of the elements that follow. Throws if so many elements, of at least
  /// `min_bytes` each, do not fit into the remaining bytes.
  [[nodiscard]] std::uint32_t count(std::size_t min_bytes);

  [[nodiscard]] std::size_t left() const noexcept { return bytes_.size() - at_; }
  /// Throws unless everything has been read.
  void finish() const;
  /// Throws `Damaged` at the value read last.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... problem) const {
    throw damaged(file_, offset_ + last_, problem...);
  }
  /// Throws `Unsupported` at the value read last: a newer version has `what`.
  template <class... Parts>
  [[noreturn]] void refuse_newer(const Parts&... what) const {
    throw of_newer_version(file_, offset_ + last_, what...);
  }

 private:
  Bytes bytes_;
  std::string file_;
  std::uint64_t offset_;
  std::size_t at_ = 0;    ///< Where the next value begins.
  std::size_t last_ = 0;  ///< Where the value read last begins.
};

}  // namespace reprise::record
