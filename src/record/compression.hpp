#pragma once

#include "record/bytes.hpp"

#include <cstddef>
#include <memory>

namespace reprise::record {

/// Compresses with zstd; only this class and the next know it. Contexts are kept and reused.
///
/// Thread safety: as for a plain object.
class Compressor {
 public:
  /// `level`: 1 to 19. Throws `std::bad_alloc`.
  explicit Compressor(int level);
  ~Compressor();
  Compressor(Compressor&&) noexcept;
  Compressor& operator=(Compressor&&) noexcept;
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  /// Compressed size, or 0 if the result does not fit the room.
  [[nodiscard]] std::size_t compress(Bytes raw, Room room) noexcept;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
  int level_;
};

/// Thread safety: as for a plain object.
class Decompressor {
 public:
  /// Throws `std::bad_alloc`.
  Decompressor();
  ~Decompressor();
  Decompressor(Decompressor&&) noexcept;
  Decompressor& operator=(Decompressor&&) noexcept;
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  /// True if the bytes decompress to exactly the size of the room.
  [[nodiscard]] bool decompress(Bytes stored, Room room) noexcept;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace reprise::record
