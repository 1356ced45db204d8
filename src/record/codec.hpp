#pragma once

#include "record/bytes.hpp"
#include "record/errors.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::record {

/// Numbers, strings and runs of bytes one after the other, little-endian and without padding.
///
/// Thread safety: as for a plain object.
class Encoder {
 public:
  void u8(std::uint8_t value) { put(value); }
  void u32(std::uint32_t value) { put(value); }
  void u64(std::uint64_t value) { put(value); }
  void f32(float value) { put(value); }
  void f64(double value) { put(value); }
  /// Its length as u32, then its bytes.
  void string(std::string_view text);
  /// Only the bytes: the reader has to know their number.
  void bytes(Bytes bytes);

  [[nodiscard]] Bytes encoded() const noexcept { return bytes_; }
  [[nodiscard]] std::vector<std::byte> take() && noexcept { return std::move(bytes_); }

 private:
  template <class T>
  void put(T value) {
    bytes(std::as_bytes(std::span(&value, 1)));
  }

  std::vector<std::byte> bytes_;
};

/// Reads the output of an `Encoder`. Throws `CheckpointError` (`Damaged`), with the file and the
/// offset in it, if a value would go beyond the remaining bytes. Nothing is allocated for a length
/// before it was checked.
///
/// Thread safety: as for a plain object.
class Decoder {
 public:
  /// `bytes` must outlive the decoder and the views that it gives. `offset`: place of the first
  /// byte in the file (or, if the file is compressed, in its decompressed contents).
  Decoder(Bytes bytes, std::string file, std::uint64_t offset = 0)
      : bytes_(bytes), file_(std::move(file)), offset_(offset) {}

  [[nodiscard]] std::uint8_t u8() { return get<std::uint8_t>(); }
  [[nodiscard]] std::uint32_t u32() { return get<std::uint32_t>(); }
  [[nodiscard]] std::uint64_t u64() { return get<std::uint64_t>(); }
  [[nodiscard]] float f32() { return get<float>(); }
  [[nodiscard]] double f64() { return get<double>(); }
  [[nodiscard]] std::string_view string(std::size_t max_bytes);
  [[nodiscard]] Bytes bytes(std::uint64_t n);
  /// A number of elements that take at least `least_bytes` each.
  [[nodiscard]] std::uint32_t count(std::size_t least_bytes);

  [[nodiscard]] std::size_t left() const noexcept { return bytes_.size() - at_; }
  /// Throws unless everything has been read.
  void finish() const;
  /// Throws `Damaged` at the value read last.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... problem) const {
    throw damaged(file_, offset_ + last_, problem...);
  }

 private:
  template <class T>
  T get() {
    T value{};
    std::memcpy(&value, bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }

  Bytes bytes_;
  std::string file_;
  std::uint64_t offset_;
  std::size_t at_ = 0;
  std::size_t last_ = 0;
};

}  // namespace reprise::record
