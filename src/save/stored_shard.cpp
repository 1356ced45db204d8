#include "save/stored_shard.hpp"

#include "base/normal.hpp"
#include "save/save.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace reprise::save {
namespace {

using record::Bytes;
using shard::ChunkImage;
using shard::ShardImage;

/// The fewest bytes that a stored chunk takes.
constexpr std::size_t kChunkBytes = 8 * sizeof(std::uint32_t) + 1;

/// Appends the values of the items in written chunks to the parts of a state.
template <class T>
void add_parts(std::vector<Bytes>& parts, const base::LazyArray<T>& values, const ShardImage& image,
               const std::vector<bool>& written) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < image.chunks.size(); ++i) {
    if (written[i]) {
      parts.push_back(std::as_bytes(std::span(values.data() + at, image.chunks[i].items)));
    }
    at += image.chunks[i].items;
  }
}

/// More turns than any buffer ever counts.
constexpr std::uint64_t kMaxTurn = std::uint64_t{1} << 62U;

/// Pointers to the 32-bit numbers of a chunk, in the order in which a checkpoint has them.
template <class Image>
auto numbers(Image& chunk) {
  return std::array{
      &chunk.chunk,    &chunk.generation, &chunk.next_generation, &chunk.generation_before,
      &chunk.restored, &chunk.ingested,   &chunk.deselected,      &chunk.items};
}

/// Refuses a number that no chunk of the shard has.
void check_chunk(const record::Decoder& from, const ImageBounds& bounds, std::uint32_t chunk) {
  if (chunk - bounds.first_chunk >= bounds.chunks) {
    from.refuse("chunk ", chunk, " in the shard of ", bounds.chunks, " chunks from ",
                bounds.first_chunk);
  }
}

std::vector<std::uint32_t> decode_chunks(record::Decoder& from, const ImageBounds& bounds) {
  auto chunks = from.list<std::uint32_t>();
  for (const std::uint32_t chunk : chunks) {
    check_chunk(from, bounds, chunk);
  }
  return chunks;
}

double finite(record::Decoder& from) {
  const auto value = from.value<double>();
  if (!(std::isfinite(value) && value >= 0.0)) {
    from.refuse("a number is ", value, "; allowed: finite, at least 0");
  }
  return value;
}

ChunkImage decode_image(record::Decoder& from, const ImageBounds& bounds, std::uint32_t version) {
  ChunkImage image;
  for (std::uint32_t* const number : numbers(image)) {
    *number = from.u32();
  }
  check_chunk(from, bounds, image.chunk);
  image.closed = from.u8() != 0;
  image.turn = version < kStateVersionTurns ? 0 : from.u64();
  if (image.turn > kMaxTurn) {
    from.refuse("the turn of chunk ", image.chunk, " is ", image.turn, "; allowed: 0 to ",
                kMaxTurn);
  }
  if (image.ingested > bounds.chunk_rows || image.deselected >= image.ingested ||
      image.restored > bounds.chunk_rows || image.items > image.ingested - image.deselected) {
    from.refuse("chunk ", image.chunk, " has ", image.items, " items in rows ", image.deselected,
                " to ", image.ingested, " of ", bounds.chunk_rows);
  }
  return image;
}

template <class T>
base::LazyArray<T> decode_values(record::Decoder& from, std::size_t count) {
  const Bytes bytes = from.bytes(std::uint64_t{count} * sizeof(T));
  base::LazyArray<T> values(count);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

}  // namespace

void write_state(checkpoint::Saver& saver, const std::string& name, const ShardImage& image,
                 const std::vector<bool>& written) {
  record::Encoder to;
  to.u32(kStateVersionTurns);
  std::uint32_t chunks = 0;
  std::uint64_t evicted = image.evicted;  // Chunks that are not written were evicted since.
  for (std::size_t i = 0; i < written.size(); ++i) {
    chunks += written[i] ? 1U : 0U;
    evicted += written[i] ? 0U : image.chunks[i].steps;
  }
  to.u64(evicted);
  to.u32(image.touched);
  to.list(image.generations);
  to.list(image.free);
  to.list(image.open);
  for (const SelectorMemory& memory : image.memories) {
    to.value(memory.first);
    to.value(memory.second);
  }
  to.u32(chunks);
  for (std::size_t i = 0; i < image.chunks.size(); ++i) {
    if (written[i]) {
      for (const std::uint32_t* const number : numbers(image.chunks[i])) {
        to.u32(*number);
      }
      to.u8(image.chunks[i].closed ? 1 : 0);
      to.u64(image.chunks[i].turn);
    }
  }
  std::vector<Bytes> parts{to.encoded()};
  for (const base::LazyArray<float>& stored : image.stored) {
    add_parts(parts, stored, image, written);
  }
  if (image.draws.size() != 0) {
    add_parts(parts, image.draws, image, written);
  }
  saver.write_state(name, parts);
}

ShardImage read_state(record::Decoder& from, const ImageBounds& bounds, std::uint32_t version) {
  ShardImage image;
  image.evicted = from.u64();
  image.touched = from.u32();
  image.generations = from.list<std::uint32_t>();
  if (image.generations.size() != bounds.chunks || image.touched > bounds.chunks) {
    from.refuse(image.touched, " of ", image.generations.size(), " chunks touched; there are ",
                bounds.chunks);
  }
  image.free = decode_chunks(from, bounds);
  image.open = decode_chunks(from, bounds);
  for (std::size_t s = 0; s < bounds.selectors; ++s) {
    const double first = finite(from);
    image.memories.push_back({first, finite(from)});
  }
  const std::uint32_t chunks = from.count(kChunkBytes);
  std::vector<bool> seen(bounds.chunks);
  for (std::uint32_t i = 0; i < chunks; ++i) {
    image.chunks.push_back(decode_image(from, bounds, version));
    if (version < kStateVersionTurns) {
      // Older versions have no turns. Chunks of all shards that are as many chunks from the young
      // end get about the same turn.
      image.chunks.back().turn = std::uint64_t{bounds.chunks - chunks + i} * shard::kMaxShards;
    }
    const std::uint32_t chunk = image.chunks.back().chunk - bounds.first_chunk;
    if (seen[chunk] || chunk >= image.touched) {
      from.refuse("chunk ", image.chunks.back().chunk, seen[chunk] ? " twice" : " untouched");
    }
    seen[chunk] = true;
    image.items += image.chunks.back().items;
  }
  for (std::size_t s = 0; s < bounds.selectors; ++s) {
    image.stored.push_back(decode_values<float>(from, image.items));
    for (std::size_t i = 0; i < image.items; ++i) {
      const float value = image.stored.back()[i];
      const bool removed = s == 0 && value == shard::kRemoved;
      image.any_removed |= removed;
      if (!removed && !base::finite_and_not_negative(value)) {
        from.refuse("item ", i, " has a value that cannot be");
      }
    }
  }
  if (bounds.draws_limited) {
    image.draws = decode_values<std::uint32_t>(from, image.items);
  }
  return image;
}

}  // namespace reprise::save
