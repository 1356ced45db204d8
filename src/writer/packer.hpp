#pragma once

#include "buffer/format.hpp"
#include "storage/chunk_store.hpp"
#include "storage/frame_codec.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::writer {

/// Holds the last rows of a writer's open episode uncompressed, and packs them into the chunk. Used
/// if the schema compresses fields.
///
/// A row is packed at the commit that completes its observation, before the row is published (I1).
/// Rows have the numbers that `OpenChunk` gives them, and do not move in memory when the numbers
/// change.
///
/// One thread at a time.
class Packer {
 public:
  Packer(const buffer::Format& format, storage::ChunkStore& store);

  /// The memory of an uncompressed row: the current one, the next one or context.
  [[nodiscard]] std::byte* at(std::uint32_t row) const noexcept {
    return rows_.get() + std::size_t{(first_ + row) & mask_} * stride_;
  }
  /// Makes row `by` row 0; numbers wrap.
  void renumber(std::uint32_t by) noexcept { first_ += by; }

  /// Goes on in a chunk, whose rows before this one are packed.
  void enter(std::uint32_t chunk, std::uint32_t row) noexcept;
  /// Packs the rows up to `last` that are not packed yet: the observation of each row, and the
  /// columns of each but `last`. `segment`: the first row of this episode or stream in the chunk.
  void pack(std::uint32_t segment, std::uint32_t last) noexcept;

 private:
  struct Copy {
    std::size_t from;  ///< Offset in an uncompressed row.
    std::size_t to;    ///< Offset in a row of a chunk.
    std::size_t bytes;
  };
  struct Frame : Copy {
    std::size_t key;  ///< Place of the key frame in the frame room.
  };

  void pack_frames(std::uint32_t row) noexcept;
  void copy(std::uint32_t row, const std::vector<Copy>& fields) const noexcept;

  storage::ChunkStore& store_;
  storage::FrameEncoder encoder_;
  std::vector<Frame> frames_;
  std::vector<Copy> observations_;  ///< Observations that are not compressed.
  std::vector<Copy> columns_;
  const std::size_t stride_;
  const std::uint32_t mask_;  ///< Rows kept, a power of two, less 1.
  const std::unique_ptr<std::byte[]> rows_;
  std::uint32_t first_ = 0;  ///< Place of row 0, before wrapping.
  std::uint32_t chunk_ = storage::kNil;
  std::uint32_t packed_ = 0;     ///< Rows of the chunk whose observations are packed.
  std::uint32_t room_used_ = 0;  ///< Bytes taken in the chunk's frame room.
};

}  // namespace reprise::writer
