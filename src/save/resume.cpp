#include "save/resume.hpp"

#include "save/stored_chunk.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <unordered_map>

namespace reprise::save {
namespace {

using shard::ChunkImage;
using shard::ShardImage;
using storage::ItemHeader;
using storage::kNil;

/// A load skips a random number of generations, at least this many, so that keys made between a
/// save and its load are stale, and two loads of one checkpoint go on with different keys.
constexpr std::uint32_t kMinSkipped = 1024;

std::uint32_t random_generations_to_skip() {
  constexpr std::uint32_t kChoices = ItemKey::kGenerationMask + 1 - 2 * kMinSkipped;
  return kMinSkipped + static_cast<std::uint32_t>(std::random_device{}()) % kChoices;
}

/// A chunk that was open at the save and can stay open: for the writer that takes its former
/// writer's place, or otherwise for any writer that looks for a chunk. A chunk with too little room
/// is closed. So is one that an earlier load restored, because it has keys of two generations
/// already.
struct Reopenable {
  std::uint32_t room = 0;  ///< Rows that a writer may use.
  bool kept = false;       ///< The chunk stays open.
};
using OpenChunks = std::unordered_map<std::uint32_t, Reopenable>;  ///< By chunk.

/// Keeps a chunk open for a writer that needs `rows` rows. Returns false if it is not possible.
bool keep_open(OpenChunks& open_chunks, std::uint32_t chunk, std::uint32_t rows) {
  const auto open = open_chunks.find(chunk);
  if (open == open_chunks.end() || open->second.kept || open->second.room < rows) {
    return false;
  }
  open->second.kept = true;
  return true;
}

std::uint32_t generation(std::uint32_t number) {
  return number & ItemKey::kGenerationMask;
}

/// Skips generations of a chunk, for the items that come after the load. With `closing`, no writer
/// adds a row, and the present generation stays: the rows that `decide_rest` still decides have the
/// steps that their keys named before the load.
void skip_generations(ChunkImage& chunk, std::uint32_t skipped, bool closing) {
  chunk.next_generation = generation(chunk.next_generation + skipped);
  if (!closing) {
    chunk.generation_before = chunk.generation;
    chunk.restored = chunk.ingested;
    chunk.generation = chunk.next_generation;
    chunk.next_generation = generation(chunk.next_generation + 1);
  }
}

/// All touched chunks without steps: first those that were free, in their order, then the others.
std::vector<std::uint32_t> free_chunks(const ShardImage& image, std::uint32_t first_chunk) {
  std::vector<bool> in_use(image.touched);  // Or already in the list.
  for (const ChunkImage& chunk : image.chunks) {
    in_use[chunk.chunk - first_chunk] = true;
  }
  std::vector<std::uint32_t> free;
  const auto add = [&](std::uint32_t index) {
    if (index < in_use.size() && !in_use[index]) {
      in_use[index] = true;
      free.push_back(first_chunk + index);
    }
  };
  for (const std::uint32_t chunk : image.free) {
    add(chunk - first_chunk);
  }
  for (std::uint32_t index = 0; index < in_use.size(); ++index) {
    add(index);
  }
  return free;
}

/// An open chunk, and whether it has to be closed.
struct Unfinished {
  ChunkImage chunk;
  bool closing;
};

/// The highest position of an item, by episode.
using HighestPositions = std::unordered_map<std::uint64_t, std::uint64_t>;

/// Calls each(header) for each item of a chunk.
template <class Each>
void for_each_header(buffer::BufferCore& core, const ChunkImage& chunk, Each each) {
  storage::ChunkStore& store = core.store();
  for (std::uint32_t row = 0; row < chunk.ingested; ++row) {
    if (storage::is_item(store.priorities(chunk.chunk)[row])) {
      ItemHeader header;
      std::memcpy(&header, store.row(chunk.chunk, row), sizeof(header));
      each(header);
    }
  }
}

/// Finds the highest positions in all chunks, for the episodes of the unfinished chunks.
HighestPositions find_highest_positions(buffer::BufferCore& core,
                                        const std::vector<ShardImage>& images,
                                        const std::vector<Unfinished>& unfinished) {
  HighestPositions latest;
  for (const Unfinished& open : unfinished) {
    for_each_header(core, open.chunk,
                    [&latest](const ItemHeader& header) { latest[header.episode] = 0; });
  }
  for (const ShardImage& image : images) {
    for (const ChunkImage& chunk : image.chunks) {
      for_each_header(core, chunk, [&latest](const ItemHeader& header) {
        if (const auto at = latest.find(header.episode); at != latest.end()) {
          at->second = std::max(at->second, header.position());
        }
      });
    }
  }
  return latest;
}

/// Ends the open episode of a chunk at the last step that the window of a decided item reads, and
/// decides the open steps before that. If items have recurrent states, these steps begin no item,
/// because their states were not saved.
///
/// If the episode goes on in another chunk, no step is decided: the save saw the writer's items in
/// that chunk, but not yet its last ones in this chunk. In a stream no step is decided either,
/// because no item begins with the last steps of a stream.
void decide_rest(buffer::BufferCore& core, const HighestPositions& latest, const ChunkImage& chunk,
                 std::uint32_t end) {
  storage::ChunkStore& store = core.store();
  float* const priorities = store.priorities(chunk.chunk);
  std::uint64_t* const numbers = store.item_numbers(chunk.chunk, 0);
  std::uint32_t last_row = chunk.ingested;
  ItemHeader last;
  do {  // The loop ends, because rows_read found an item whose window ends at `end`.
    --last_row;
    std::memcpy(&last, store.row(chunk.chunk, last_row), sizeof(last));
  } while (!storage::is_item(priorities[last_row]) || last_row + last.length() + 1 != end);
  const bool in_other_chunk = chunk.ingested + 1 < end && latest.at(last.episode) > last.position();
  for (std::uint32_t row = chunk.ingested; row + 1 < end; ++row) {
    if (in_other_chunk || core.window().continues()) {
      priorities[row] = storage::kNotAStep;
      continue;
    }
    const std::uint64_t position = last.position() + (row - last_row);
    const std::uint32_t length = end - 1 - row;
    if (!core.window().begins_item(position, length, /*ends=*/true) ||
        core.layout().state_mask() != 0) {
      priorities[row] = storage::kStepWithoutItem;
      continue;
    }
    const ItemHeader header = ItemHeader::make(last.episode, position, length);
    std::memcpy(store.row(chunk.chunk, row), &header, sizeof(header));
    priorities[row] = storage::kInitialPriority;
    if (numbers != nullptr) {
      numbers[row] = core.item_numbers().take();
    }
  }
  priorities[end - 1] = storage::kNotAStep;
}

/// Links chunks between which episodes go on, as their writers did. Only hindsight reads these
/// links, and it needs windows of one step, so every step is an item here.
void restore_sequels(buffer::BufferCore& core, const std::vector<ShardImage>& images) {
  storage::ChunkStore& store = core.store();
  // Calls each(place, header) for each step with which an episode may go on in a chunk, because it
  // follows rows without a step, and for the last step of each chunk that its writer filled.
  const auto for_each_border = [&](const auto& each) {
    for (const ShardImage& image : images) {
      for (const ChunkImage& chunk : image.chunks) {
        const float* const priorities = store.priorities(chunk.chunk);
        for (std::uint32_t row = 0; row < chunk.ingested; ++row) {
          const bool follows_none = row == 0 || !storage::is_item(priorities[row - 1]);
          if (storage::is_item(priorities[row]) && (follows_none || row == store.last_step())) {
            ItemHeader header;
            std::memcpy(&header, store.row(chunk.chunk, row), sizeof(header));
            each(storage::Place{chunk.chunk, row}, header);
          }
        }
      }
    }
  };
  // The full chunks, by the episode and position of the step that comes after their last one.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> chunks;
  for_each_border([&](storage::Place place, const ItemHeader& header) {
    if (place.row == store.last_step()) {
      chunks[{header.episode, header.position() + 1}] = place.chunk;
    }
  });
  for_each_border([&](storage::Place place, const ItemHeader& header) {
    const auto before = chunks.find({header.episode, header.position()});
    if (before != chunks.end()) {
      // What a writer does when it leaves the full chunk, and once it knows where the next step is.
      const std::uint32_t mark = storage::Sequel::mark(header.episode, header.position());
      store.chunk(before->second).sequel.expect(mark);
      store.chunk(before->second).sequel.resolve(mark, store.slot(place));
    }
  });
}

/// Sets the positions from which the next writers continue.
void restore_writer_positions(buffer::BufferCore& core, const StoredBuffer& stored,
                              OpenChunks& open) {
  // A writer begins an episode in its chunk without context, so a step and the row behind it fit.
  constexpr std::uint32_t kRowsNeeded = 2;
  for (std::size_t slot = 0; slot < std::min(stored.writer_positions.size(), core.slots().size());
       ++slot) {
    buffer::WriterSlots::WriterPosition writer_position = stored.writer_positions[slot];
    if (writer_position.next_shard < core.shards().size()) {  // kNil: the slot had no writer.
      if (!keep_open(open, writer_position.chunk, kRowsNeeded)) {
        writer_position.chunk = kNil;
      }
      core.slots().set_position(slot, writer_position);
    }
  }
}

/// Changes an image to the state in which the buffer continues: with later generations, and each
/// touched chunk has steps, is kept open for a writer, or is in the free list. `rows`: how many
/// rows a writer needs that takes an open chunk and copies context there.
void prepare_image(ShardImage& image, std::uint32_t first_chunk, std::uint32_t skipped,
                   std::uint32_t rows, OpenChunks& open, std::vector<Unfinished>& unfinished) {
  image.free = free_chunks(image, first_chunk);
  for (std::uint32_t& number : image.generations) {
    number = generation(number + skipped);
  }
  std::vector<std::uint32_t> for_any_writer;
  for (const std::uint32_t chunk : image.open) {
    if (keep_open(open, chunk, rows)) {
      for_any_writer.push_back(chunk);
    }
  }
  for (ChunkImage& chunk : image.chunks) {
    if (keep_open(open, chunk.chunk, rows)) {
      for_any_writer.push_back(chunk.chunk);
    }
    const auto reopenable = open.find(chunk.chunk);
    const bool closing = reopenable == open.end() || !reopenable->second.kept;
    skip_generations(chunk, skipped, closing);
    if (!chunk.closed) {
      unfinished.push_back({chunk, closing});
    }
  }
  image.open = for_any_writer;
}

/// Ends the episodes under way, and closes chunks that are not kept open, as writers would do.
void finish(buffer::BufferCore& core, const std::vector<ShardImage>& images,
            const std::vector<Unfinished>& unfinished) {
  // With windows of one step no step is undecided.
  const HighestPositions latest = core.window().ahead() > 1
                                      ? find_highest_positions(core, images, unfinished)
                                      : HighestPositions();
  for (const auto& [chunk, closing] : unfinished) {
    const std::uint32_t end = rows_read(core.window(), core.store(), chunk);
    if (end > chunk.ingested) {
      decide_rest(core, latest, chunk, end);
    }
    core.store().chunk(chunk.chunk).cursor = end;
    if (end > chunk.ingested || closing) {
      storage::publish(core.store().chunk(chunk.chunk).bell, end);
      shard::Shard& shard = core.shards().of_chunk(chunk.chunk);
      shard.ring(chunk.chunk, closing ? shard::Ring::Closing : shard::Ring::News);
    }
  }
  core.shards().drain();
}

void restore_counters(buffer::BufferCore& core, const StoredBuffer& stored) {
  const Stats stats = core.stats();
  const std::uint64_t committed = stats.resident_steps + stats.excess_steps + stats.evicted_steps;
  const limiter::RatioTerms ratio = stored.ratio.value_or(core.limiter().terms());
  core.slots().restore(committed);
  core.limiter().restore({committed, stored.counts.limiter_samples}, core.limiter_items(), ratio);
  core.counters.sampled_items = stored.counts.sampled_items;
  core.counters.sampled_batches = stored.counts.sampled_batches;
  core.counters.applied_updates = stored.counts.applied_updates;
  core.counters.stale_updates = stored.counts.stale_updates;
  core.counters.closed_chunks = stored.counts.closed_chunks;
  core.counters.saved_steps = committed;
  core.shards().writer_ingests = stored.counts.writer_ingests;
  // A writer may have taken a block of episode ids after the save had read their count and before
  // it read the writer positions.
  std::uint64_t blocks = stored.counts.episode_blocks;
  for (const buffer::WriterSlots::WriterPosition& writer_position : stored.writer_positions) {
    const std::uint64_t in_block =
        writer_position.next_episode % buffer::BufferCore::kEpisodeIdBlock == 0 ? 0 : 1;
    blocks = std::max(
        blocks, writer_position.next_episode / buffer::BufferCore::kEpisodeIdBlock + in_block);
  }
  core.counters.episode_blocks = blocks;
}

}  // namespace

void resume(buffer::BufferCore& core, std::vector<ShardImage>& images, const StoredBuffer& stored) {
  OpenChunks open;
  for (const ShardImage& image : images) {
    for (const ChunkImage& chunk : image.chunks) {
      if (!chunk.closed && chunk.restored == 0) {
        open[chunk.chunk].room =
            core.store().chunk_rows() - rows_read(core.window(), core.store(), chunk);
      }
    }
  }
  restore_writer_positions(core, stored, open);
  std::vector<Unfinished> unfinished;
  const std::uint32_t skipped = random_generations_to_skip();
  const auto chunks = static_cast<std::uint32_t>(core.store().chunks() / core.shards().size());
  for (std::size_t s = 0; s < images.size(); ++s) {
    prepare_image(images[s], static_cast<std::uint32_t>(s) * chunks, skipped,
                  core.window().min_chunk_rows(), open, unfinished);
  }
  core.restore(images, stored.counts.item_numbers);
  finish(core, images, unfinished);
  if (core.window().ahead() == 1) {
    restore_sequels(core, images);
  }
  core.set_version(stored.version);
  restore_counters(core, stored);
  core.saves.samplers = stored.samplers;
}

}  // namespace reprise::save
