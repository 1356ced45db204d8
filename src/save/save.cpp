#include "save/save.hpp"

#include "base/parallel.hpp"
#include "checkpoint/saver.hpp"
#include "checkpoint/snapshot.hpp"
#include "save/attachments.hpp"
#include "save/stored_buffer.hpp"
#include "save/stored_chunk.hpp"
#include "save/stored_options.hpp"
#include "save/stored_shard.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <thread>
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
                        core.shards().draws_limited());
    for (const auto& stored : images.back().stored) {
      stored.expect_full(0, core.options().capacity_steps / core.shards().size());
    }
  }
  core.shards().drain();
  const buffer::ShardSet::LockAll all(core.shards());
  for (std::size_t s = 0; s < all.size(); ++s) {
    all[s].store(images[s]);
  }
  for (std::size_t s = 0; s < image.alphas.size(); ++s) {
    image.alphas[s] = core.selectors().at(s).alpha().value_or(-1.0F);
  }
  return image;
}

/// Slows a save to `SaveOptions::bytes_per_second`. One thread, unless that number is 0.
class Pace {
 public:
  explicit Pace(const SaveOptions& options)
      : rate_(static_cast<double>(options.bytes_per_second)), stop_(options.stop) {}

  [[nodiscard]] bool slows() const noexcept { return rate_ > 0.0; }

  /// Call it after `bytes` were written: it sleeps until all bytes so far have taken long enough,
  /// or until stop is requested, which the next write reports.
  void after(std::size_t bytes) {
    if (!slows()) {
      return;
    }
    using Seconds = std::chrono::duration<double>;
    constexpr Seconds kNap = std::chrono::milliseconds(10);  // So soon a stop request is seen.
    bytes_ += static_cast<double>(bytes);
    const auto left = [&] { return Seconds(bytes_ / rate_) - Seconds(Clock::now() - start_); };
    while (left().count() > 0.0 && !stop_.stop_requested()) {
      std::this_thread::sleep_for(std::min(left(), kNap));
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  const double rate_;
  const std::stop_token stop_;
  const Clock::time_point start_ = Clock::now();
  double bytes_ = 0.0;
};

/// Writes a chunk while it is pinned. Returns its bytes before compression; 0 if it was evicted
/// since the image was taken.
std::size_t write_chunk(buffer::BufferCore& core, checkpoint::Saver& saver,
                        const ChunkImage& image) {
  buffer::ShardSet& shards = core.shards();
  if (!buffer::ShardSet::Lock(shards, shards.index_of_chunk(image.chunk))->pin_stored(image)) {
    return 0;
  }
  std::size_t bytes = 0;
  shard::Shard& shard = shards.of_chunk(image.chunk);
  core.store().will_need_chunk(image.chunk);
  try {
    const StoredChunk stored(core.format(), core.store(), image);
    saver.write_chunk({image.chunk, image.first_generation(), stored.rows, image.closed},
                      stored.parts);
    for (const record::Bytes part : stored.parts) {
      bytes += part.size();
    }
  } catch (...) {
    shard.unpin(std::span(&image.chunk, 1));
    throw;
  }
  shard.unpin(std::span(&image.chunk, 1));
  return bytes;
}

/// For each chunk of a shard's image, whether the new checkpoint has the chunk.
using Written = std::vector<bool>;

/// Takes over chunks of the previous checkpoint: closed ones whose mutable columns have not changed
/// since. Stores in `changes` how often each chunk was changed so far. This comes before any chunk
/// is written, so that a value replaced later makes the next save write the chunk.
Written reuse_chunks(buffer::BufferCore& core, checkpoint::Saver& saver, const ShardImage& image,
                     std::span<std::uint32_t> changes) REPRISE_REQUIRES(core.saves.mutex) {
  Written written(image.chunks.size());
  for (std::size_t i = 0; i < image.chunks.size(); ++i) {
    const ChunkImage& chunk = image.chunks[i];
    changes[chunk.chunk] = core.store().changes(chunk.chunk);
    written[i] = chunk.closed && changes[chunk.chunk] == core.saves.changes[chunk.chunk] &&
                 saver.reuse_chunk({chunk.chunk, chunk.first_generation(),
                                    core.store().chunk_rows(), /*closed=*/true});
  }
  return written;
}

/// Writes the chunks of a shard that are not `written`, beginning with the next to be evicted, and
/// then the state of the shard. Leaves out chunks that are evicted before they are written.
void write_shard(buffer::BufferCore& core, checkpoint::Saver& saver, std::size_t s,
                 const ShardImage& image, Written& written, Pace& pace) {
  for (std::size_t i = 0; i < image.chunks.size(); ++i) {
    if (!written[i]) {
      const std::size_t bytes = write_chunk(core, saver, image.chunks[i]);
      written[i] = bytes != 0;
      pace.after(bytes);
    }
  }
  write_state(saver, kShardState + std::to_string(s), image, written);
}

/// The ratio that the limiter holds, if it was changed since the buffer was made.
std::optional<limiter::RatioTerms> changed_ratio(buffer::BufferCore& core) {
  const auto* const option = std::get_if<SampleToInsertRatio>(&core.options().rate_limiter);
  const limiter::RatioTerms held = core.limiter().terms();
  const bool changed = option != nullptr &&
                       (held.samples_per_insert != option->samples_per_insert || held.offset != 0);
  return changed ? std::optional(held) : std::nullopt;
}

StoredBuffer stored_buffer(buffer::BufferCore& core, const std::vector<float>& alphas,
                           std::span<const base::Random::State> samplers) {
  const Stats stats = core.stats();
  StoredBuffer stored{
      .counts = {.sampled_items = stats.sampled_items,
                 .sampled_batches = stats.sampled_batches,
                 .applied_updates = stats.applied_updates,
                 .stale_updates = stats.stale_updates,
                 .closed_chunks = stats.closed_chunks,
                 .writer_ingests = stats.writer_ingests,
                 .item_numbers = core.item_numbers().taken(),
                 .episode_blocks = core.counters.episode_blocks.load(std::memory_order_relaxed),
                 .limiter_samples = core.limiter().counts().samples},
      .ratio = changed_ratio(core),
      .alphas = alphas,
      .writer_positions = {},
      .samplers = {samplers.begin(), samplers.end()},
      // Relaxed: the images were made before this, under locks.
      .version = core.counters.version_begun.load(std::memory_order_relaxed)};
  for (std::size_t slot = 0; slot < core.slots().size(); ++slot) {
    stored.writer_positions.push_back(core.slots().writer_position(slot));
  }
  return stored;
}

template <class Contents>
void write_state(checkpoint::Saver& saver, const char* name, const Contents& contents,
                 std::uint32_t version = kStateVersion) {
  Encoder to;
  to.u32(version);
  encode(to, contents);
  saver.write_state(name, std::array{to.encoded()});
}

/// The steps that the images hold or have evicted, and the chunks that hold them.
struct Totals {
  std::uint64_t steps = 0;
  std::uint64_t chunks = 0;
};
Totals totals_of(std::span<const ShardImage> images) {
  Totals totals;
  for (const ShardImage& shard : images) {
    totals.steps += shard.evicted;
    for (const ChunkImage& chunk : shard.chunks) {
      totals.steps += chunk.steps;
    }
    totals.chunks += shard.chunks.size();
  }
  return totals;
}

/// Writes the chunks and states of all shards; `changes` receives the changes of each chunk.
std::vector<Written> write_shards(buffer::BufferCore& core, checkpoint::Saver& saver,
                                  std::span<const ShardImage> images, const SaveOptions& options,
                                  std::span<std::uint32_t> changes)
    REPRISE_REQUIRES(core.saves.mutex) {
  std::vector<Written> written;
  std::uint64_t bytes = 0;
  for (const ShardImage& shard : images) {
    written.push_back(reuse_chunks(core, saver, shard, changes));
    for (std::size_t i = 0; i < shard.chunks.size(); ++i) {
      bytes += written.back()[i] ? 0 : core.store().bytes_of_chunk(shard.chunks[i].chunk);
    }
  }
  Pace pace(options);
  // Several threads would write a file each. If little is new, syncing these files takes longer
  // than the threads save.
  const bool one_thread = pace.slows() || bytes < checkpoint::Segments::kFullBytes;
  base::for_each_index(images.size(), one_thread ? 0 : bytes, [&](std::size_t s) {
    write_shard(core, saver, s, images[s], written[s], pace);
  });
  return written;
}

std::uint64_t left_out_steps(std::span<const ShardImage> images, std::span<const Written> written) {
  std::uint64_t steps = 0;
  for (std::size_t s = 0; s < images.size(); ++s) {
    for (std::size_t i = 0; i < written[s].size(); ++i) {
      steps += written[s][i] ? 0 : images[s].chunks[i].steps;
    }
  }
  return steps;
}

SaveResult save_once(buffer::BufferCore& core, record::FileSystem& files,
                     const std::string& directory, const SaveOptions& options,
                     std::span<const base::Random::State> samplers)
    REPRISE_REQUIRES(core.saves.mutex) {
  checkpoint::Saver saver(files, directory, options, core.saves.base);
  // D1: acquire; partner: end_truncated, as in BufferCore::stats.
  const std::uint64_t dropped = core.counters.dropped_steps.load(std::memory_order_acquire);
  const Image image = store_all(core);
  // The counts are read after the images, so that they include everything that the images show.
  const StoredBuffer stored = stored_buffer(core, image.alphas, samplers);
  write_state(saver, kBufferState, stored, stored.ratio ? kStateVersionRatio : kStateVersion);
  write_state(saver, kSchemaState, core.schema());
  write_state(saver, kOptionsState, core.options(), kOptionsVersion);
  const Totals totals = totals_of(image.shards);
  saver.announce(totals.chunks);
  core.saves.changes.resize(core.store().chunks());
  std::vector<std::uint32_t> changes(core.store().chunks());
  const std::vector<Written> written = write_shards(core, saver, image.shards, options, changes);
  // Attachments come after the chunks, because chunks may be evicted while others are written.
  write_attachments(saver, options.attachments);
  SaveResult result = saver.commit();
  result.left_out_steps = left_out_steps(image.shards, written);
  core.saves.base = saver.id();
  core.saves.changes = std::move(changes);
  // Relaxed: a statistic.
  core.counters.saved_steps.store(dropped + totals.steps, std::memory_order_relaxed);
  return result;
}

}  // namespace

SaveResult save(buffer::BufferCore& core, record::FileSystem& files, const std::string& directory,
                const SaveOptions& options, std::span<const base::Random::State> samplers) {
  const base::MutexLock lock(core.saves.mutex);
  try {
    return save_once(core, files, directory, options, samplers);
  } catch (const CheckpointError& error) {
    if (!core.saves.base || !checkpoint::is_fault_of_files(error)) {
      throw;
    }
    // The checkpoint that cannot be read may be the base. A save without a base reads no data.
    core.saves.base.reset();
    if (error.kind() == CheckpointError::Kind::Io) {
      throw;  // A disk that fails may fail a second save too, so the user should know.
    }
  }
  return save_once(core, files, directory, options, samplers);
}

}  // namespace reprise::save
