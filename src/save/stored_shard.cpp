#include "save/stored_shard.hpp"

#include "save/save.hpp"

#include <cmath>
#include <cstring>
#include <span>

namespace reprise::save {
namespace {

using record::Bytes;
using shard::ChunkImage;
using shard::ShardImage;

/// Fewest bytes of a chunk.
constexpr std::size_t kChunkBytes = 8 * sizeof(std::uint32_t) + 1;

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

void encode(record::Encoder& to, const std::vector<std::uint32_t>& chunks) {
  to.u32(static_cast<std::uint32_t>(chunks.size()));
  for (const std::uint32_t chunk : chunks) {
    to.u32(chunk);
  }
}

/// Reads the number of a chunk of the shard.
std::uint32_t decode_chunk(record::Decoder& from, const ImageBounds& bounds) {
  const std::uint32_t chunk = from.u32();
  if (chunk - bounds.first_chunk >= bounds.chunks) {
    from.refuse("chunk ", chunk, " in the shard of ", bounds.chunks, " chunks from ",
                bounds.first_chunk);
  }
  return chunk;
}

std::vector<std::uint32_t> decode_chunks(record::Decoder& from, const ImageBounds& bounds) {
  std::vector<std::uint32_t> chunks(from.count(sizeof(std::uint32_t)));
  for (std::uint32_t& chunk : chunks) {
    chunk = decode_chunk(from, bounds);
  }
  return chunks;
}

double finite(record::Decoder& from) {
  const double value = from.f64();
  if (!(std::isfinite(value) && value >= 0.0)) {
    from.refuse("a number is ", value, "; allowed: finite, at least 0");
  }
  return value;
}

ChunkImage decode_image(record::Decoder& from, const ImageBounds& bounds) {
  ChunkImage image;
  image.chunk = decode_chunk(from, bounds);
  for (std::uint32_t* const number :
       {&image.generation, &image.next_generation, &image.generation_before, &image.restored,
        &image.ingested, &image.deselected, &image.items}) {
    *number = from.u32();
  }
  image.closed = from.u8() != 0;
  if (image.ingested > bounds.chunk_rows || image.deselected >= image.ingested ||
      image.restored > bounds.chunk_rows || image.items > image.ingested - image.deselected) {
    from.refuse("chunk ", image.chunk, " has ", image.items, " items in rows ", image.deselected,
                " to ", image.ingested, " of ", bounds.chunk_rows);
  }
  return image;
}

template <class T, class Good>
base::LazyArray<T> decode_values(record::Decoder& from, std::size_t count, Good good) {
  const Bytes bytes = from.bytes(std::uint64_t{count} * sizeof(T));
  base::LazyArray<T> values(count);
  if (count != 0) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!good(values[i])) {
      from.refuse("item ", i, " has a value that cannot be");
    }
  }
  return values;
}

}  // namespace

void write_state(checkpoint::Saver& saver, const std::string& name, const ShardImage& image,
                 const std::vector<bool>& written) {
  record::Encoder to;
  to.u32(kStateVersion);
  std::uint32_t chunks = 0;
  std::uint64_t evicted = image.evicted;  // Plus those evicted before their turn.
  for (std::size_t i = 0; i < written.size(); ++i) {
    chunks += written[i] ? 1U : 0U;
    evicted += written[i] ? 0U : image.chunks[i].steps;
  }
  to.u64(evicted);
  to.u32(image.touched);
  encode(to, image.generations);
  encode(to, image.free);
  encode(to, image.open);
  for (const SelectorMemory& memory : image.memories) {
    to.f64(memory.first);
    to.f64(memory.second);
  }
  to.u32(chunks);
  for (std::size_t i = 0; i < image.chunks.size(); ++i) {
    if (!written[i]) {
      continue;
    }
    const ChunkImage& chunk = image.chunks[i];
    for (const std::uint32_t number :
         {chunk.chunk, chunk.generation, chunk.next_generation, chunk.generation_before,
          chunk.restored, chunk.ingested, chunk.deselected, chunk.items}) {
      to.u32(number);
    }
    to.u8(chunk.closed ? 1 : 0);
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

ShardImage read_state(record::Decoder& from, const ImageBounds& bounds) {
  ShardImage image(0, 0, 0, false);
  image.evicted = from.u64();
  image.touched = from.u32();
  image.generations.resize(from.count(sizeof(std::uint32_t)));
  if (image.generations.size() != bounds.chunks || image.touched > bounds.chunks) {
    from.refuse(image.touched, " of ", image.generations.size(), " chunks touched; there are ",
                bounds.chunks);
  }
  for (std::uint32_t& generation : image.generations) {
    generation = from.u32();
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
    image.chunks.push_back(decode_image(from, bounds));
    const std::uint32_t chunk = image.chunks.back().chunk - bounds.first_chunk;
    if (seen[chunk] || chunk >= image.touched) {
      from.refuse("chunk ", image.chunks.back().chunk, seen[chunk] ? " twice" : " untouched");
    }
    seen[chunk] = true;
    image.items += image.chunks.back().items;
  }
  for (std::size_t s = 0; s < bounds.selectors; ++s) {
    image.stored.push_back(decode_values<float>(
        from, image.items, [](float value) { return std::isfinite(value) && value >= 0.0F; }));
  }
  if (bounds.draws_limited) {
    image.draws =
        decode_values<std::uint32_t>(from, image.items, [](std::uint32_t) { return true; });
  }
  return image;
}

}  // namespace reprise::save
