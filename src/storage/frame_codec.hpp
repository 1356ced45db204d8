#pragma once

#include "base/sync.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

union LZ4_stream_u;

namespace reprise::storage {

/// The place of a compressed frame in the frame room of its chunk. A row has one for each field
/// that is compressed, in the place of the field's bytes.
struct FrameRef {
  std::uint32_t at = 0;     ///< Bytes from the beginning of the room.
  std::uint32_t bytes = 0;  ///< Bytes stored; as many as the frame has if it is uncompressed.

  [[nodiscard]] std::size_t end() const noexcept { return std::size_t{at} + bytes; }
};

/// Larger frames are cut into blocks of this size. LZ4 looks back 64 KiB at most, which are a block
/// and the same block of the key frame.
inline constexpr std::size_t kFrameBlock = 32768;

/// Compresses frames by LZ4 with a key frame of the same size as dictionary, so that each can be
/// decompressed by itself.
///
/// One thread at a time. Nothing is allocated after the constructor, which may throw
/// `std::bad_alloc`.
class FrameEncoder {
 public:
  FrameEncoder();

  /// Writes the frame to `to`, which has room for the frame uncompressed. A frame that cannot be
  /// compressed is stored as it is. Returns the number of bytes written.
  std::size_t encode(std::span<const std::byte> key, std::span<const std::byte> frame,
                     std::byte* to) noexcept;

 private:
  struct Free {
    void operator()(LZ4_stream_u* stream) const noexcept;
  };
  std::unique_ptr<LZ4_stream_u, Free> stream_;
};

/// Decompresses what `FrameEncoder` wrote. Reads nothing outside of the ranges that it is given,
/// whatever is in them.
///
/// LZ4 is much faster where the dictionary lies directly before the output. So a frame is
/// decompressed directly behind a copy of its key frame, which stays there for other frames with
/// the same key frame. Key frames must not change as long as the decoder lives. One thread at a
/// time; an object has 64 KiB, usually on the stack.
class FrameDecoder {
 public:
  // The memory is not initialised, because it is written before it is read.
  FrameDecoder() noexcept {}  // NOLINT(modernize-use-equals-default)

  /// Calls sink(offset, bytes) with the frame in pieces, which are valid during that call. Returns
  /// false if the frame is damaged; by then the sink may have been called with some pieces.
  template <class Sink>
  bool decode(std::span<const std::byte> key, std::span<const std::byte> stored,
              const Sink& sink) noexcept {
    std::size_t at = 0;
    while (at < key.size()) {
      const std::span<const std::byte> piece = next(key, stored, at);
      if (piece.empty()) {
        return false;
      }
      sink(at, piece);
      at += piece.size();
    }
    return stored.empty();
  }
  /// Like `decode`, for a frame in its room, where the key frame of its field begins at `key`.
  /// Returns false also if the frame or the key frame is not inside the room.
  template <class Sink>
  bool read(std::span<const std::byte> room, FrameRef ref, std::size_t key, std::size_t bytes,
            const Sink& sink) noexcept {
    return ref.end() <= room.size() && key <= room.size() && bytes <= room.size() - key &&
           decode(room.subspan(key, bytes), room.subspan(ref.at, ref.bytes), sink);
  }

 private:
  std::span<const std::byte> next(std::span<const std::byte> key,
                                  std::span<const std::byte>& stored, std::size_t at) noexcept;

  /// The block of a key frame whose copy lies before the middle of `memory_`.
  const std::byte* key_ = nullptr;
  alignas(base::kCacheLine) std::array<std::byte, 2 * kFrameBlock> memory_;
};

/// Decompresses a frame from its room. False if it is damaged; `frame` is then filled with zeros.
bool read_frame(std::span<const std::byte> room, FrameRef ref, std::size_t key,
                std::span<std::byte> frame) noexcept;

}  // namespace reprise::storage
