#include "api/checkpoint.hpp"
#include "api/checkpoint_attachments.hpp"
#include "api/checkpoint_options.hpp"
#include "api/checkpoint_resume.hpp"
#include "api/checkpoint_shard.hpp"
#include "api/stored_chunk.hpp"
#include "checkpoint/snapshot.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

namespace reprise::detail {
namespace {

using checkpoint::Decoder;
using shard::ChunkImage;
using shard::ShardImage;
using storage::ItemHeader;

/// A state, and where it is, for errors.
struct State {
  State(const checkpoint::Snapshot& snapshot, const std::string& directory, const std::string& name)
      : bytes(checkpoint::Reader(snapshot).state(name)), decoder(bytes, directory + ": " + name) {
    if (const std::uint32_t version = decoder.u32(); version != kStateVersion) {
      throw CheckpointError(CheckpointError::Kind::Unsupported,
                            "state '" + name + "' is of version " + std::to_string(version) +
                                "; this reprise reads " + std::to_string(kStateVersion),
                            directory);
    }
  }
  std::vector<std::byte> bytes;
  Decoder decoder;
};

std::shared_ptr<BufferCore> make_core(const checkpoint::Snapshot& snapshot,
                                      const std::string& directory, const BufferCore* like) {
  State schema(snapshot, directory, kSchemaState);
  const Schema stored_schema = api::decode_schema(schema.decoder);
  schema.decoder.finish();
  State options(snapshot, directory, kOptionsState);
  const api::StoredOptions stored = api::decode_options(options.decoder);
  options.decoder.finish();
  const auto mismatch = [&](const std::string& problem) {
    return CheckpointError(CheckpointError::Kind::Mismatch, problem, directory);
  };
  Options use = stored.options;
  if (like != nullptr) {
    for (const std::string& found : {api::difference(stored_schema, like->schema()),
                                     api::difference(stored, like->options())}) {
      if (!found.empty()) {
        throw mismatch(found);
      }
    }
    use = like->options();
    use.key_tag = stored.options.key_tag;
  } else if (const std::string own = stored.own_strategy(); !own.empty()) {
    throw mismatch(own + " is a strategy of your own: make a buffer with it and restore that");
  }
  try {
    return std::make_shared<BufferCore>(stored_schema, use);
  } catch (const std::invalid_argument& error) {
    options.decoder.refuse(error.what());
  }
}

/// Takes one shard's rows, priorities and order in, and checks that they fit its image.
class ShardLoader {
 public:
  ShardLoader(BufferCore& core, const checkpoint::Snapshot& snapshot, const std::string& directory,
              std::size_t shard, std::uint64_t orders)
      : core_(core),
        orders_(orders),
        store_(core.store()),
        snapshot_(snapshot),
        reader_(snapshot),
        bounds_{static_cast<std::uint32_t>(shard * (store_.chunks() / core.shard_count())),
                static_cast<std::uint32_t>(store_.chunks() / core.shard_count()),
                store_.chunk_rows(), core.rules().size(), core.options().max_times_sampled != 0},
        state_(snapshot, directory, kShardState + std::to_string(shard)),
        entries_(bounds_.chunks) {}

  ShardImage load() {
    ShardImage image = read_state(state_.decoder, bounds_);
    state_.decoder.finish();
    for (const checkpoint::ChunkEntry& entry : snapshot_.chunks()) {
      if (entry.id.index - bounds_.first_chunk < bounds_.chunks) {
        entries_.at(entry.id.index - bounds_.first_chunk) = &entry;
      }
    }
    for (const ChunkImage& chunk : image.chunks) {
      load_chunk(chunk);
    }
    return image;
  }

 private:
  void load_chunk(const ChunkImage& image) {
    const checkpoint::ChunkEntry& entry = find(image);
    const std::size_t stride = store_.row_stride();
    float* const priorities = store_.priorities(image.chunk);
    std::uint64_t* const order = store_.order(image.chunk, 0);
    std::vector<checkpoint::Room> rooms{
        {store_.row(image.chunk, 0), entry.id.rows * stride},
        std::as_writable_bytes(std::span(priorities, image.ingested))};
    if (order != nullptr) {
      rooms.push_back(std::as_writable_bytes(std::span(order, image.ingested)));
    }
    const std::uint64_t states = state_bytes(entry, rooms);
    if (states != 0) {
      rooms.emplace_back(store_.state(image.chunk * bounds_.chunk_rows), states);
    }
    reader_.chunk(entry, rooms);
    check_rows(image, entry.id.rows);
    if (states != states_kept(core_, image) * store_.state_stride()) {
      state_.decoder.refuse("chunk ", image.chunk, " has ", states, " bytes of recurrent states");
    }
    store_.restore_states(image.chunk, states_kept(core_, image));
  }

  /// What a chunk has beyond these rooms; none more than there can be.
  std::uint64_t state_bytes(const checkpoint::ChunkEntry& entry,
                            const std::vector<checkpoint::Room>& rooms) {
    std::uint64_t bytes = entry.at.place.raw;
    for (const checkpoint::Room& room : rooms) {
      bytes -= std::min<std::uint64_t>(bytes, room.size());
    }
    return std::min<std::uint64_t>(bytes, bounds_.chunk_rows * store_.state_stride());
  }

  const checkpoint::ChunkEntry& find(const ChunkImage& image) {
    const checkpoint::ChunkEntry* const entry = entries_[image.chunk - bounds_.first_chunk];
    if (entry == nullptr || entry->id.generation != image.first_generation() ||
        entry->id.closed != image.closed || entry->id.rows < image.ingested ||
        entry->id.rows > bounds_.chunk_rows) {
      state_.decoder.refuse("chunk ", image.chunk, " is not the one that belongs here");
    }
    return *entry;
  }

  /// Whether all that a window reads is there, and every priority one that can be.
  void check_rows(const ChunkImage& image, std::uint32_t rows) {
    const float* const priorities = store_.priorities(image.chunk);
    const std::uint64_t* const order = store_.order(image.chunk, 0);
    std::uint32_t items = 0;
    std::uint32_t states = image.chunk * bounds_.chunk_rows;
    bool any_step = false;
    for (std::uint32_t row = 0; row < image.ingested; ++row) {
      const float priority = priorities[row];
      const bool item = storage::is_item(priority);
      if (!(item || priority == storage::kNotAStep || priority == storage::kStepAlone) ||
          std::isinf(priority)) {
        state_.decoder.refuse("chunk ", image.chunk, ", row ", row, ": priority ", priority);
      }
      any_step |= row >= image.deselected && priority != storage::kNotAStep;
      if (!item) {
        continue;
      }
      items += row >= image.deselected ? 1U : 0U;
      ItemHeader header;
      std::memcpy(&header, store_.row(image.chunk, row), sizeof(header));
      if (store_.state_stride() != 0) {
        storage::StateNumber number = 0;
        std::memcpy(&number, store_.row(image.chunk, row) + storage::kStateNumberOffset,
                    sizeof(number));
        if (number != states++) {
          state_.decoder.refuse("chunk ", image.chunk, ", row ", row, ": recurrent state ", number);
        }
      }
      const std::uint64_t behind =
          std::min<std::uint64_t>(header.position(), core_.window().behind());
      if (header.length() == 0 || header.length() > core_.window().ahead() ||
          row + header.length() >= rows || behind > row ||
          (order != nullptr && order[row] >= orders_)) {
        state_.decoder.refuse("chunk ", image.chunk, ", row ", row, ": a window of ",
                              header.length(), " steps");
      }
    }
    if (!any_step || items != image.items) {
      state_.decoder.refuse("chunk ", image.chunk, " has ", items, " items, not ", image.items);
    }
  }

  BufferCore& core_;
  const std::uint64_t orders_;
  storage::ChunkStore& store_;
  const checkpoint::Snapshot& snapshot_;
  checkpoint::Reader reader_;
  const ImageBounds bounds_;
  State state_;
  std::vector<const checkpoint::ChunkEntry*> entries_;  ///< By chunk.
};

}  // namespace

std::shared_ptr<BufferCore> load(checkpoint::FileSystem& files, const std::string& directory,
                                 const LoadOptions& options, const BufferCore* like) {
  const checkpoint::Snapshot snapshot =
      checkpoint::open_latest(files, directory, {.stop = options.stop}, options.skipped);
  const std::shared_ptr<BufferCore> core = make_core(snapshot, directory, like);
  State state(snapshot, directory, kBufferState);
  const StoredBuffer stored(state.decoder, core->rules().size());
  std::vector<ShardImage> images;
  images.reserve(core->shard_count());
  for (std::size_t s = 0; s < core->shard_count(); ++s) {
    images.emplace_back(0, 0, 0, false);
  }
  for_each_shard(*core, snapshot.chunks().size(), [&](std::size_t s) {
    images[s] = ShardLoader(*core, snapshot, directory, s, stored.orders).load();
  });
  try {
    resume(*core, images, stored);
  } catch (const std::invalid_argument& error) {
    state.decoder.refuse(error.what());
  }
  if (options.attachments != nullptr) {
    *options.attachments = api::read_attachments(snapshot);
  }
  const base::MutexLock lock(core->save_mutex);
  core->base = snapshot.id();
  return core;
}

}  // namespace reprise::detail
