#include "save/save.hpp"

#include "base/parallel.hpp"
#include "checkpoint/saver.hpp"
#include "save/attachments.hpp"
#include "save/stored_chunk.hpp"
#include "save/stored_options.hpp"
#include "save/stored_shard.hpp"

#include <array>
#include <span>
#include <vector>

namespace reprise::save {
namespace {

using record::Encoder;
using shard::ChunkImage;
using shard::ShardImage;

/// The shards and the exponents of the selectors at one moment.
struct Image {
  std::vector<ShardImage> shards;
  std::vector<float> alphas;
};

Image store_all(buffer::BufferCore& core) {
  Image image;
  std::vector<ShardImage>& images = image.shards;
  image.alphas.resize(core.selectors().size());
  images.reserve(core.shards().size());
  const std::size_t chunks = core.store().chunks() / core.shards().size();
  for (std::size_t s = 0; s < core.shards().size(); ++s) {
    images.emplace_back(chunks, chunks * core.store().chunk_rows(), core.selectors().size(),
                        core.options().max_times_sampled != 0);
    for (const auto& stored : images.back().stored) {
      stored.expect_full(0, core.options().capacity_steps / core.shards().size());
    }
  }
  core.shards().drain();
  const buffer::ShardSet::All all(core.shards());
  for (std::size_t s = 0; s < all.size(); ++s) {
    all[s].store(images[s]);
  }
  for (std::size_t s = 0; s < image.alphas.size(); ++s) {
    image.alphas[s] = core.selectors().at(s).alpha().value_or(-1.0F);
  }
  return image;
}

/// Writes a chunk while it is pinned. False if it was evicted since the image was taken.
bool write_chunk(buffer::BufferCore& core, checkpoint::Saver& saver, const ChunkImage& image) {
  buffer::ShardSet& shards = core.shards();
  if (!buffer::ShardSet::One(shards, shards.index_of_chunk(image.chunk))->pin_stored(image)) {
    return false;
  }
  shard::Shard& shard = shards.of_chunk(image.chunk);
  core.store().will_need(core.store().row(image.chunk, 0), core.store().chunk_bytes());
  try {
    const StoredChunk stored(core, image);
    saver.write_chunk({image.chunk, image.first_generation(), stored.rows, image.closed},
                      stored.parts);
  } catch (...) {
    shard.unpin(std::span(&image.chunk, 1));
    throw;
  }
  shard.unpin(std::span(&image.chunk, 1));
  return true;
}

/// Writes the chunks of a shard, beginning with the next to be evicted, and then the state of the
/// shard. Chunks that were evicted before their turn are left out.
void write_shard(buffer::BufferCore& core, checkpoint::Saver& saver, std::size_t s,
                 const ShardImage& image) {
  std::vector<bool> written(image.chunks.size());
  for (std::size_t i = 0; i < image.chunks.size(); ++i) {
    const ChunkImage& chunk = image.chunks[i];
    // A closed chunk does not change, so it is not written again if the previous checkpoint has it.
    written[i] = (chunk.closed && saver.reuse_chunk({chunk.chunk, chunk.first_generation(),
                                                     core.store().chunk_rows(), true})) ||
                 write_chunk(core, saver, chunk);
  }
  write_state(saver, kShardState + std::to_string(s), image, written);
}

void write_buffer(buffer::BufferCore& core, checkpoint::Saver& saver, std::span<const float> alphas,
                  std::span<const base::Random::State> samplers) {
  Encoder to;
  to.u32(kStateVersion);
  const Stats stats = core.stats();
  to.u64(stats.sampled_items);
  to.u64(stats.sampled_batches);
  to.u64(stats.applied_updates);
  to.u64(stats.stale_updates);
  to.u64(stats.closed_chunks);
  to.u64(stats.writer_ingests);
  to.u64(core.item_numbers_taken());
  to.u64(core.counters.episode_blocks.load(std::memory_order_relaxed));
  to.u64(core.limiter().counts().samples);
  to.u32(static_cast<std::uint32_t>(alphas.size()));
  for (const float alpha : alphas) {
    to.f32(alpha);
  }
  to.u32(static_cast<std::uint32_t>(core.slots().size()));
  for (std::size_t slot = 0; slot < core.slots().size(); ++slot) {
    const buffer::WriterSlots::WriterPosition writer_position = core.slots().writer_position(slot);
    to.u32(writer_position.chunk);
    to.u32(writer_position.next_shard);
    to.u64(writer_position.next_episode);
  }
  to.u32(static_cast<std::uint32_t>(samplers.size()));
  for (const base::Random::State& state : samplers) {
    for (const std::uint64_t word : state) {
      to.u64(word);
    }
  }
  saver.write_state(kBufferState, std::array{record::Bytes(to.encoded())});
}

}  // namespace

SaveResult save(buffer::BufferCore& core, record::FileSystem& files, const std::string& directory,
                const SaveOptions& options, std::span<const base::Random::State> samplers) {
  const base::MutexLock lock(core.saves.mutex);
  checkpoint::Saver saver(files, directory, options, core.saves.base);
  const Image image = store_all(core);
  const std::vector<ShardImage>& images = image.shards;
  // After the images, so that the counts written here include everything that the images show.
  write_buffer(core, saver, image.alphas, samplers);
  Encoder schema;
  schema.u32(kStateVersion);
  encode(schema, core.schema());
  saver.write_state(kSchemaState, std::array{record::Bytes(schema.encoded())});
  Encoder with;
  with.u32(kStateVersion);
  encode(with, core.options());
  saver.write_state(kOptionsState, std::array{record::Bytes(with.encoded())});
  std::uint64_t chunks = 0;
  for (const ShardImage& shard : images) {
    chunks += shard.chunks.size();
  }
  saver.announce(chunks);
  base::for_each_index(images.size(), chunks * core.store().chunk_bytes(),
                       [&](std::size_t s) { write_shard(core, saver, s, images[s]); });
  // After the chunks, which are evicted while anything else is written.
  write_attachments(saver, options.attachments);
  const SaveResult result = saver.commit();
  core.saves.base = saver.id();
  return result;
}

}  // namespace reprise::save
