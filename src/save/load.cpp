#include "base/normal.hpp"
#include "base/parallel.hpp"
#include "base/text.hpp"
#include "buffer/plan.hpp"
#include "buffer/update.hpp"
#include "checkpoint/snapshot.hpp"
#include "record/errors.hpp"
#include "save/attachments.hpp"
#include "save/resume.hpp"
#include "save/save.hpp"
#include "save/stored_chunk.hpp"
#include "save/stored_options.hpp"
#include "save/stored_shard.hpp"
#include "storage/frame_codec.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <stop_token>
#include <utility>
#include <vector>

namespace reprise::save {
namespace {

using checkpoint::Snapshot;
using record::Decoder;
using shard::ChunkImage;
using shard::ShardImage;
using storage::ItemHeader;

/// The most steps that a stored buffer may have evicted: more than any buffer ever takes, and so
/// few that the rate limiter can go on counting from there in 48 bits.
constexpr std::uint64_t kMaxEvictedSteps = std::uint64_t{1} << 47U;

/// The bytes of a state, and their place in the file for errors. In the record's first block the
/// offset in an error is exact; behind it, blocks may be compressed.
struct State {
  State(const Snapshot& snapshot, const std::string& name, std::uint32_t newest = kStateVersion)
      : bytes(checkpoint::Reader(snapshot).read_state(name)),
        at(snapshot.state(name).at),
        decoder(bytes, snapshot.path_of(at), at.place.offset + record::BlockHeader::kBytes) {
    version = decoder.u32();
    if (version == 0 || version > newest) {
      throw CheckpointError(CheckpointError::Kind::Unsupported,
                            "state '" + name + "' is of version " + std::to_string(version) +
                                "; this reprise reads " + std::to_string(newest),
                            snapshot.path_of(at), at.place.offset);
    }
  }
  std::vector<std::byte> bytes;
  checkpoint::RecordRef at;
  Decoder decoder;
  std::uint32_t version = 0;
};

/// Refuses options with more chunks or writers than the states have bytes for, because a buffer
/// takes memory for each of them as soon as it is made.
void check_size(const Snapshot& snapshot, const Schema& schema, const Options& options,
                const Decoder& from) {
  const buffer::Plan plan =
      buffer::make_plan(options, storage::RowLayout(schema), window::WindowSpec(options.window));
  const auto need = [&](const std::string& name, std::uint64_t count, std::uint64_t bytes,
                        const char* what) {
    const std::uint64_t size = snapshot.state(name).at.place.raw;
    if (size / bytes < count) {
      from.refuse("the options are of ", count, " ", what, ", and state '", name, "' has ", size,
                  " bytes");
    }
  };
  need(kBufferState, plan.options.max_writers, sizeof(StoredBuffer::WriterPosition), "writers");
  for (std::size_t s = 0; s < plan.options.shards; ++s) {
    need(kShardState + std::to_string(s), plan.chunks_per_shard, kBytesPerChunk, "chunks");
  }
}

/// An empty buffer for the contents of a checkpoint, and whether its rate limiter has the options
/// that the saved buffer's limiter had.
struct EmptyBuffer {
  std::shared_ptr<buffer::BufferCore> core;
  bool same_limiter;
};

EmptyBuffer make_core(const Snapshot& snapshot, const std::string& directory,
                      const Storage& storage, const buffer::BufferCore* like) {
  State schema(snapshot, kSchemaState);
  const Schema stored_schema = decode_schema(schema.decoder);
  schema.decoder.finish();
  State options(snapshot, kOptionsState, kOptionsVersion);
  const Options stored = decode_options(options.decoder, options.version);
  options.decoder.finish();
  const auto mismatch = [&](const std::string& problem) {
    return CheckpointError(CheckpointError::Kind::Mismatch, problem, directory);
  };
  Options use = stored;
  use.storage = storage;
  if (like != nullptr) {
    for (const std::string& problem :
         {difference(stored_schema, like->schema()), difference(stored, like->options())}) {
      if (!problem.empty()) {
        throw mismatch(problem);
      }
    }
    use = like->options();
    use.key_tag = stored.key_tag;
  } else if (const std::string own = user_defined_strategy(stored); !own.empty()) {
    throw mismatch(own + " is a strategy of your own: make a buffer with it and restore that");
  } else if (stored.max_times_sampled == 0 && std::holds_alternative<Queue>(stored.rate_limiter)) {
    throw mismatch(
        "the rate_limiter is a Queue without max_times_sampled, which an older version took: make "
        "a "
        "buffer with the other options and another rate_limiter, and restore that");
  }
  try {
    check_size(snapshot, stored_schema, use, options.decoder);
    // Equal schemas may differ in whether values have to be finite.
    return {
        std::make_shared<buffer::BufferCore>(like != nullptr ? like->schema() : stored_schema, use),
        use.rate_limiter == stored.rate_limiter};
  } catch (const std::invalid_argument& error) {
    options.decoder.refuse(error.what());
  } catch (const std::bad_alloc&) {
    if (like != nullptr) {
      throw;  // A buffer with these options exists, so only memory is short now.
    }
    throw mismatch("there is not the address space for a buffer of its options, with " +
                   std::to_string(use.capacity_steps) + " steps");
  }
}

/// Reads rows, priorities, item numbers, recurrent states and frames of one shard's chunks, and
/// checks that they fit its image.
class ShardLoader {
 public:
  ShardLoader(buffer::BufferCore& core, const Snapshot& snapshot, std::size_t shard,
              std::uint64_t item_numbers)
      : core_(core),
        item_numbers_(item_numbers),
        store_(core.store()),
        snapshot_(snapshot),
        reader_(snapshot),
        bounds_{static_cast<std::uint32_t>(shard * (store_.chunks() / core.shards().size())),
                static_cast<std::uint32_t>(store_.chunks() / core.shards().size()),
                store_.chunk_rows(), core.selectors().size(), core.shards().draws_limited()},
        state_(snapshot, kShardState + std::to_string(shard), kStateVersionTurns),
        entries_(bounds_.chunks) {}

  ShardImage load(const std::stop_token& stop) {
    ShardImage image = read_state(state_.decoder, bounds_, state_.version);
    if (image.any_removed && state_.version < kStateVersionRemoved) {
      state_.decoder.refuse("removed items, which version ", state_.version, " has not");
    }
    const std::uint64_t most = kMaxEvictedSteps / core_.shards().size();
    if (image.evicted > most) {
      state_.decoder.refuse(image.evicted, " steps evicted; allowed: at most ", most);
    }
    state_.decoder.finish();
    if (const int error = store_.set_aside(bounds_.first_chunk, image.touched); error != 0) {
      buffer::refuse_disk(core_.options().storage, error, "the chunks of a shard",
                          image.touched * store_.disk_bytes_of_chunk());
    }
    for (const checkpoint::ChunkEntry& entry : snapshot_.chunks()) {
      if (entry.id.index - bounds_.first_chunk < bounds_.chunks) {
        entries_.at(entry.id.index - bounds_.first_chunk) = &entry;
      }
    }
    for (const ChunkImage& chunk : image.chunks) {
      if (stop.stop_requested()) {
        throw CheckpointError(CheckpointError::Kind::Cancelled, "the load was cancelled");
      }
      load_chunk(chunk);
    }
    return image;
  }

 private:
  void load_chunk(const ChunkImage& image) {
    const checkpoint::ChunkEntry& entry = find(image);
    const std::size_t stride = store_.row_stride();
    float* const priorities = store_.priorities(image.chunk);
    std::uint64_t* const numbers = store_.item_numbers(image.chunk, 0);
    std::vector<record::WritableBytes> rooms{
        {store_.row(image.chunk, 0), entry.id.rows * stride},
        std::as_writable_bytes(std::span(priorities, image.ingested))};
    if (numbers != nullptr) {
      rooms.push_back(std::as_writable_bytes(std::span(numbers, image.ingested)));
    }
    // Recurrent states and frames follow. How many states there are is known only from the
    // priorities, which this call reads too.
    rest_.resize(bytes_left(entry, rooms));
    if (!rest_.empty()) {
      rooms.emplace_back(rest_);
    }
    reader_.read_chunk(entry, rooms);
    check_rows(image, entry);
    const std::size_t states = states_kept(store_, image) * store_.state_stride();
    if (rest_.size() < states ||
        (rest_.size() > states && store_.frame_room(image.chunk).empty())) {
      refuse(entry, " has ", rest_.size(), " bytes of recurrent states");
    }
    if (states != 0) {
      std::memcpy(store_.state(image.chunk * bounds_.chunk_rows), rest_.data(), states);
    }
    store_.restore_states(image.chunk, states_kept(store_, image));
    restore_frames(image, entry, std::span<const std::byte>(rest_).subspan(states));
  }

  /// How many bytes of a stored chunk come after those for these rooms; at most as many as states
  /// and frames can have.
  std::size_t bytes_left(const checkpoint::ChunkEntry& entry,
                         const std::vector<record::WritableBytes>& rooms) {
    std::uint64_t bytes = entry.at.place.raw;
    for (const record::WritableBytes& room : rooms) {
      bytes -= std::min<std::uint64_t>(bytes, room.size());
    }
    return std::min<std::uint64_t>(
        bytes, bounds_.chunk_rows * store_.state_stride() + store_.frame_room(0).size());
  }

  /// Puts compressed frames into a chunk. Refuses damaged frames, and frames that do not follow
  /// each other as a writer puts them.
  void restore_frames(const ChunkImage& image, const checkpoint::ChunkEntry& entry,
                      std::span<const std::byte> stored) {
    const std::span<std::byte> room = store_.frame_room(image.chunk);
    if (room.empty()) {
      return;
    }
    if (stored.size() > room.size()) {
      refuse(entry, " has ", stored.size(), " bytes of frames");
    }
    std::copy(stored.begin(), stored.end(), room.begin());
    const std::uint32_t rows = rows_read(core_.window(), store_, image);
    std::size_t end = 0;
    for (std::uint32_t row = 0; row < rows; ++row) {
      for (const storage::CompressedField& field : core_.chunk_layout().compressed()) {
        storage::FrameRef ref;
        std::memcpy(&ref, store_.row(image.chunk, row) + field.offset, sizeof(ref));
        frame_.resize(field.bytes);
        if (ref.at != end || (row == 0 && ref.bytes != field.bytes) ||
            !storage::read_frame(room.first(stored.size()), ref, field.key, frame_)) {
          refuse(entry, ", row ", row, ": field '", core_.schema().fields()[field.field].name,
                 "' cannot be decompressed");
        }
        end = ref.end();
      }
    }
    if (end != stored.size()) {
      refuse(entry, " has ", stored.size(), " bytes of frames; its rows have ", end);
    }
    store_.note_frames(image.chunk, rows, static_cast<std::uint32_t>(end));
  }

  /// The stored chunk of an image. Refuses a stored chunk that does not fit the image.
  const checkpoint::ChunkEntry& find(const ChunkImage& image) {
    const checkpoint::ChunkEntry* const entry = entries_[image.chunk - bounds_.first_chunk];
    if (entry == nullptr || entry->id.generation != image.first_generation() ||
        entry->id.closed != image.closed || entry->id.rows < image.ingested ||
        entry->id.rows > bounds_.chunk_rows) {
      state_.decoder.refuse("chunk ", image.chunk, " is not the one that belongs here");
    }
    return *entry;
  }

  template <class... Parts>
  [[noreturn]] void refuse(const checkpoint::ChunkEntry& entry, const Parts&... problem) {
    throw record::damaged(snapshot_.path_of(entry.at), entry.at.place.offset, "chunk ",
                          entry.id.index, problem...);
  }

  /// Whether `length` rows from `row` on are the window of a stream's item: its steps, and final
  /// rows between them as a writer puts them. Always true if windows end with their episode.
  [[nodiscard]] bool is_whole(const std::byte* row, std::uint32_t length) const {
    using storage::StreamRow;
    const storage::StreamRows& stream_rows = core_.chunk_layout().stream_rows();
    std::uint32_t last = 0;  // The row of step number `steps` of the item, counted from `row`.
    for (std::uint32_t steps = 1; stream_rows.present(); ++steps) {
      const std::byte* const step = row + last * core_.chunk_layout().stride();
      if (last >= length || stream_rows.of(step) >= StreamRow::Final) {
        return false;
      }
      if (steps == core_.window().ahead()) {
        return last + 1 == length;
      }
      const std::uint32_t to_next = stream_rows.to_next(step);
      if (to_next == 1 && stream_rows.of(step) != StreamRow::Continue) {
        return false;
      }
      last += to_next;
    }
    return true;
  }

  /// Refuses a chunk that no writer can have written, such as one with an impossible priority or
  /// with an item whose window reads missing rows.
  void check_rows(const ChunkImage& image, const checkpoint::ChunkEntry& entry) {
    const float* const priorities = store_.priorities(image.chunk);
    const std::uint64_t* const numbers = store_.item_numbers(image.chunk, 0);
    std::uint32_t items = 0;
    std::uint32_t states = image.chunk * bounds_.chunk_rows;
    bool any_step = false;
    for (std::uint32_t row = 0; row < image.ingested; ++row) {
      const float priority = priorities[row];
      const bool item = storage::is_item(priority);
      if (!(base::finite_and_not_negative(priority) || priority == storage::kInitialPriority ||
            priority == storage::kNotAStep || priority == storage::kStepWithoutItem)) {
        refuse(entry, ", row ", row, ": priority ", priority);
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
          refuse(entry, ", row ", row, ": recurrent state ", number);
        }
      }
      const std::uint64_t behind =
          std::min<std::uint64_t>(header.position(), core_.window().behind());
      if (header.length() == 0 || header.length() > core_.window().reach() ||
          row + header.length() >= entry.id.rows || behind > row ||
          (numbers != nullptr && numbers[row] >= item_numbers_) ||
          !is_whole(store_.row(image.chunk, row), header.length())) {
        refuse(entry, ", row ", row, ": a window of ", header.length(), " steps");
      }
    }
    if (!any_step || items != image.items) {
      refuse(entry, " has ", items, " items, not ", image.items);
    }
  }

  buffer::BufferCore& core_;
  const std::uint64_t item_numbers_;
  storage::ChunkStore& store_;
  const Snapshot& snapshot_;
  checkpoint::Reader reader_;
  const ImageBounds bounds_;
  State state_;
  std::vector<const checkpoint::ChunkEntry*> entries_;  ///< The entry of each chunk.
  std::vector<std::byte> rest_;                         ///< Recurrent states and frames of a chunk.
  std::vector<std::byte> frame_;                        ///< Scratch.
};

/// Sets the exponents that selectors had when they were saved. A checkpoint stores nothing else of
/// a user's own rule, so an exponent that the rule refuses may be a fault of the rule, not of the
/// files.
void set_alphas(buffer::BufferCore& core, const StoredBuffer& stored, const Decoder& from,
                const std::string& directory) {
  for (std::size_t s = 0; s < stored.alphas.size(); ++s) {
    const float alpha = stored.alphas[s];
    if (!(alpha >= 0.0F) || alpha == core.selectors().at(s).alpha()) {
      continue;
    }
    try {
      buffer::set_alpha(core, alpha, s);
    } catch (const std::invalid_argument& error) {
      if (is_user_defined(core.options().selectors[s])) {
        throw CheckpointError(
            CheckpointError::Kind::Mismatch,
            base::text("selector ", s, " has the exponent ", alpha,
                       " in the checkpoint, which your own refuses: ", error.what()),
            directory);
      }
      from.refuse(error.what());
    }
  }
}

/// Refuses a ratio that the limiter cannot hold.
void check_ratio(const buffer::BufferCore& core, const StoredBuffer& stored, const Decoder& from) {
  if (stored.ratio) {
    const double ratio = stored.ratio->samples_per_insert;
    if (!std::holds_alternative<SampleToInsertRatio>(core.options().rate_limiter)) {
      from.refuse("samples_per_insert is ", ratio, ", and the rate_limiter holds no ratio");
    }
    try {
      core.check_samples_per_insert(ratio);
    } catch (const std::invalid_argument& error) {
      from.refuse("samples_per_insert is ", ratio, ": ", error.what());
    }
  }
}

std::shared_ptr<buffer::BufferCore> load_snapshot(const Snapshot& snapshot,
                                                  const std::string& directory,
                                                  const LoadOptions& options,
                                                  const buffer::BufferCore* like) {
  const EmptyBuffer made = make_core(snapshot, directory, options.storage, like);
  const std::shared_ptr<buffer::BufferCore>& core = made.core;
  State state(snapshot, kBufferState, kStateVersionRatio);
  StoredBuffer stored = decode_buffer(state.decoder, state.version, core->selectors().size());
  if (!made.same_limiter) {
    stored.ratio.reset();
  }
  check_ratio(*core, stored, state.decoder);
  set_alphas(*core, stored, state.decoder, directory);
  std::vector<ShardImage> images(core->shards().size());
  std::uint64_t bytes = 0;
  for (const checkpoint::ChunkEntry& chunk : snapshot.chunks()) {
    bytes += chunk.at.place.raw;
  }
  base::for_each_index(images.size(), bytes, [&](std::size_t s) {
    images[s] = ShardLoader(*core, snapshot, s, stored.counts.item_numbers).load(options.stop);
  });
  resume(*core, images, stored);
  if (!made.same_limiter) {
    core->limiter().balance_out();
  }
  const base::MutexLock lock(core->saves.mutex);
  core->saves.base = snapshot.id();
  return core;
}

}  // namespace

Loaded load(record::FileSystem& files, const std::string& directory, const LoadOptions& options,
            const buffer::BufferCore* like) {
  if (like == nullptr) {
    buffer::check_storage(options.storage);
  }
  Loaded loaded;
  static_cast<void>(checkpoint::open_latest(
      files, directory, options.stop, &loaded.result.skipped, [&](const Snapshot& snapshot) {
        loaded.core.reset();  // Memory may not suffice for a failed attempt's buffer beside this.
        loaded.core = load_snapshot(snapshot, directory, options, like);
        loaded.result.attachments = read_attachments(snapshot);
      }));
  return loaded;
}

}  // namespace reprise::save
