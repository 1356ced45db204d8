#include "buffer/plan.hpp"

#include <reprise/item.hpp>

#include "base/divider.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <system_error>
#include <variant>

namespace reprise::buffer {
namespace {

constexpr std::size_t kMaxWriters = std::size_t{1} << 16U;
constexpr std::size_t kDefaultShards = 4;
constexpr std::size_t kOneShardBelow = 4096;
// The bounds of the default of `Options::chunk_steps`, which is documented there.
constexpr std::size_t kMinDefaultChunkRows = 64;
constexpr std::size_t kMaxDefaultChunkRows = 2048;
constexpr std::size_t kMinDefaultChunkWindows = 16;
/// Slots are numbered with 32 bits, and the highest number means no slot.
constexpr std::size_t kMaxSlots = std::numeric_limits<std::uint32_t>::max();
/// Places in a chunk's frame room are numbered with 32 bits.
constexpr std::size_t kMaxFrameBytes = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kMaxRowBytes = std::size_t{1} << 47U;  ///< The address space of a process.

void require_range(const char* option, std::size_t value, std::size_t min_value,
                   std::size_t max_value) {
  base::require(value >= min_value && value <= max_value, option, " is ", value,
                "; allowed: ", min_value, " to ", max_value);
}

std::size_t default_chunk_rows(const Options& options, const window::WindowSpec& window) {
  const std::size_t fair = options.capacity_steps / (4 * options.max_writers);
  const std::size_t windows = kMinDefaultChunkWindows * window.min_chunk_rows();
  return std::clamp(fair, std::max(kMinDefaultChunkRows, windows),
                    std::max(kMaxDefaultChunkRows, windows));
}

bool may_exhaust(const Options& options) {
  return options.max_times_sampled != 0 || options.max_staleness;
}

/// The number of chunks beyond those that hold the capacity; `make_plan` explains it.
std::size_t extra_chunks(const Options& options) {
  const std::size_t limited = may_exhaust(options) ? 1 : 0;
  return options.max_writers * (1 + (1 + limited) * options.shards) +
         (3 + limited) * options.shards;
}

/// Refuses options that need more rows, in whole chunks, than can be numbered or addressed. The
/// message shows the sum and names the capacity that would fit, or the rows of a chunk if no
/// capacity fits.
void require_room(const Options& options, std::size_t chunk_items, std::size_t row_bytes) {
  const bool numbers_run_out = kMaxSlots < kMaxRowBytes / row_bytes;
  const std::size_t rows = numbers_run_out ? kMaxSlots : kMaxRowBytes / row_bytes;
  const std::size_t chunks = rows / options.chunk_steps / options.shards * options.shards;
  const std::size_t extra = extra_chunks(options);
  const std::size_t steps = chunks > extra ? (chunks - extra) * chunk_items : 0;
  if (options.capacity_steps <= steps) {
    return;
  }
  const bool limited = may_exhaust(options);
  const std::string why = base::text(
      ": ceil(", options.capacity_steps, " steps / ", chunk_items, " items in a chunk) + ",
      options.max_writers, " writers * (1 + ", options.shards, limited ? " * 2" : "", " shards) + ",
      options.shards, " shards * ", limited ? "4" : "3", " chunks of ", options.chunk_steps,
      " rows of ", row_bytes, " bytes each is more than ",
      numbers_run_out ? "2^32 - 1 rows" : "2^47 bytes", "; allowed: at most ");
  base::require(steps == 0, "capacity_steps is ", options.capacity_steps, why, steps);
  const std::size_t min_chunks = (extra / options.shards + 1) * options.shards;
  base::refuse("chunk_steps is ", options.chunk_steps, why, rows / min_chunks,
               ", more with fewer max_writers or shards");
}

/// Refuses a queue whose items never leave it, because writers would wait for ever.
void check_queue(const Options& options) {
  base::require(
      !std::holds_alternative<Queue>(options.rate_limiter) || options.max_times_sampled != 0,
      "max_times_sampled is 0, with a Queue as rate_limiter; allowed: at least 1, the "
      "draws after which an item leaves the queue");
}

}  // namespace

void check_ratio(const Options& options) {
  const auto* const ratio = std::get_if<SampleToInsertRatio>(&options.rate_limiter);
  if (ratio != nullptr && options.max_times_sampled != 0 &&
      ratio->samples_per_insert > static_cast<double>(options.max_times_sampled)) {
    base::refuse(base::StrategyOf{"SampleToInsertRatio"}, "samples_per_insert is ",
                 ratio->samples_per_insert,
                 "; allowed: at most max_times_sampled = ", options.max_times_sampled,
                 ", as no step is sampled more often");
  }
}

void refuse_disk(const Storage& storage, int error, const char* what, std::size_t bytes) {
  throw std::system_error(
      error, std::generic_category(),
      base::text("storage: a mapped file in '", std::get<MappedFile>(storage).path.string(),
                 "': disk space for ", what, ", ", bytes, " bytes"));
}

void check_outline(const Options& options) {
  require_range("max_writers", options.max_writers, 1, kMaxWriters);
  require_range("number of selectors", options.selectors.size(), 1, kMaxSelectors);
}

void check_storage(const Storage& storage) {
  const MappedFile* const file = std::get_if<MappedFile>(&storage);
  base::require(file == nullptr || !file->path.empty(),
                "storage: the path of MappedFile is empty; allowed: a directory, or a name in one "
                "at which there is nothing");
}

namespace {

/// Checks the options, and chooses those that are left to reprise.
Options complete_options(Options options, const storage::RowLayout& layout,
                         const window::WindowSpec& window) {
  require_range("capacity_steps", options.capacity_steps, 1, kMaxSlots);
  check_outline(options);
  check_storage(options.storage);
  check_ratio(options);
  check_queue(options);
  base::require(!options.max_staleness || layout.version_field(), "max_staleness is ",
                options.max_staleness.value_or(0),
                ", and the schema has no version; allowed: with one that declares it");
  window.check_capacity(options.capacity_steps);
  require_range("key_tag", options.key_tag.value_or(0), 0, ItemKey::kTagMask);

  if (!options.key_tag) {
    options.key_tag = static_cast<std::uint16_t>(1 + std::random_device{}() % ItemKey::kTagMask);
  }
  const std::size_t max_shards = std::min(options.capacity_steps, kMaxShards);
  if (options.shards == 0) {
    options.shards = options.capacity_steps < kOneShardBelow ? 1 : kDefaultShards;
  }
  base::require(options.shards <= max_shards, "shards is ", options.shards,
                "; allowed: 1 to min(capacity_steps, ", kMaxShards, ") = ", max_shards);

  const std::size_t frame_bytes = layout.frame_bytes();
  const std::size_t max_rows = frame_bytes == 0 ? kMaxSlots : kMaxFrameBytes / frame_bytes;
  const std::size_t min_rows = window.min_chunk_rows();
  if (options.chunk_steps == 0) {
    options.chunk_steps =
        std::max(min_rows, std::min(default_chunk_rows(options, window), max_rows));
  }
  base::require(options.chunk_steps >= min_rows && options.chunk_steps <= kMaxSlots,
                "chunk_steps is ", options.chunk_steps,
                "; allowed: ", window.min_chunk_rows_in_words(), " = ", min_rows, " to ",
                kMaxSlots);
  base::require(options.chunk_steps <= max_rows, "chunk_steps is ", options.chunk_steps, ", of ",
                frame_bytes, " bytes of compressed fields each; allowed: at most ", max_rows);
  return options;
}

}  // namespace

Plan make_plan(const Options& options, const storage::RowLayout& layout,
               const window::WindowSpec& window) {
  Options chosen = complete_options(options, layout, window);
  const auto rows = static_cast<std::uint32_t>(chosen.chunk_steps);
  const std::size_t items = window.min_items(rows);
  const std::size_t chunks = base::divide_up(chosen.capacity_steps, items) + extra_chunks(chosen);
  const std::size_t per_shard = base::divide_up(chunks, chosen.shards);
  require_room(chosen, items, layout.stride() + layout.state_stride());
  const std::size_t usual_items = chosen.shards * (rows - window.context_rows());
  const std::size_t usual_chunks = base::divide_up(chosen.capacity_steps, usual_items) + 1;
  const shard::Extras extras{chosen.max_times_sampled, chosen.max_writers, chosen.episode_index,
                             chosen.max_staleness.has_value()};
  return {std::move(chosen), rows, static_cast<std::uint32_t>(per_shard), usual_chunks, extras};
}

}  // namespace reprise::buffer
