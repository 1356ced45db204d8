#pragma once

#include "checkpoint/saver.hpp"
#include "record/codec.hpp"
#include "shard/shard_image.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::save {

/// Writes what a shard knows of its chunks, of those that were written.
void write_state(checkpoint::Saver& saver, const std::string& name, const shard::ShardImage& image,
                 const std::vector<bool>& written);

/// That each chunk there may be takes in a shard's state at least.
inline constexpr std::size_t kBytesPerChunk = sizeof(std::uint32_t);

/// What an image can hold.
struct ImageBounds {
  std::uint32_t first_chunk = 0;
  std::uint32_t chunks = 0;
  std::uint32_t chunk_rows = 0;
  std::size_t selectors = 0;
  bool draws_limited = false;
};

/// The image, or `CheckpointError` (`Damaged`) where it cannot be one of such a shard.
[[nodiscard]] shard::ShardImage read_state(record::Decoder& from, const ImageBounds& bounds);

}  // namespace reprise::save
