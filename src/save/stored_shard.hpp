#pragma once

#include "checkpoint/saver.hpp"
#include "record/codec.hpp"
#include "shard/shard_image.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::save {

/// Writes the state of a shard and of the chunks for which `written` is true.
void write_state(checkpoint::Saver& saver, const std::string& name, const shard::ShardImage& image,
                 const std::vector<bool>& written);

/// The fewest bytes that the state of a shard has for each chunk of the shard.
inline constexpr std::size_t kBytesPerChunk = sizeof(std::uint32_t);

/// What limits the numbers in an image: facts of the shard that it is for.
struct ImageBounds {
  std::uint32_t first_chunk = 0;
  std::uint32_t chunks = 0;
  std::uint32_t chunk_rows = 0;
  std::size_t selectors = 0;
  bool draws_limited = false;
};

/// Reads an image. Throws `CheckpointError` (`Damaged`) if no shard with these bounds can have it.
[[nodiscard]] shard::ShardImage read_state(record::Decoder& from, const ImageBounds& bounds,
                                           std::uint32_t version);

}  // namespace reprise::save
