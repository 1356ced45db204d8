#include "buffer/plan.hpp"

#include <reprise/item_key.hpp>

#include "base/text.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <variant>

namespace reprise::buffer {
namespace {

constexpr std::size_t kMaxWriters = std::size_t{1} << 16U;
constexpr std::size_t kDefaultShards = 4;
constexpr std::size_t kOneShardBelow = 4096;
constexpr std::size_t kMaxDefaultChunkRows = 2048;
/// Slots are numbered with 32 bits, and the highest number means no slot.
constexpr std::size_t kMaxSlots = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kMaxRowBytes = std::size_t{1} << 47U;

void require(bool ok, const std::string& option, std::size_t value, const std::string& allowed) {
  if (!ok) {
    throw std::invalid_argument(option + " is " + std::to_string(value) + "; allowed: " + allowed);
  }
}

std::size_t default_chunk_rows(const Options& options, const window::WindowSpec& window) {
  const std::size_t fair = options.capacity_steps / (4 * options.max_writers);
  return std::clamp<std::size_t>(
      fair, std::max<std::size_t>(64, std::size_t{16} * window.min_chunk_rows()),
      std::max<std::size_t>(kMaxDefaultChunkRows, std::size_t{16} * window.min_chunk_rows()));
}

/// Chunks needed beyond those that hold the capacity; `make_plan` says for what.
std::size_t chunks_on_top(const Options& o) {
  const std::size_t limited = o.max_times_sampled == 0 ? 0 : 1;
  return o.max_writers * (1 + (1 + limited) * o.shards) + (3 + limited) * o.shards;
}

/// Refuses options that need more rows, in whole chunks, than can be numbered or addressed. The
/// message shows the sum and names the capacity that would fit, or the rows of a chunk if no
/// capacity fits.
void require_room(const Options& o, std::size_t items, std::size_t row_bytes) {
  const bool numbers = kMaxSlots < kMaxRowBytes / row_bytes;
  const std::size_t rows = numbers ? kMaxSlots : kMaxRowBytes / row_bytes;
  const std::size_t chunks = rows / o.chunk_steps / o.shards * o.shards;
  const std::size_t on_top = chunks_on_top(o);
  const std::size_t steps = chunks > on_top ? (chunks - on_top) * items : 0;
  if (o.capacity_steps <= steps) {
    return;
  }
  const bool limited = o.max_times_sampled != 0;
  const std::string why = ": ceil(" + std::to_string(o.capacity_steps) + " steps / " +
                          std::to_string(items) + " items in a chunk) + " +
                          std::to_string(o.max_writers) + " writers * (1 + " +
                          std::to_string(o.shards) + (limited ? " * 2" : "") + " shards) + " +
                          std::to_string(o.shards) + " shards * " + (limited ? "4" : "3") +
                          " chunks of " + std::to_string(o.chunk_steps) + " rows of " +
                          std::to_string(row_bytes) + " bytes each is more than " +
                          (numbers ? "2^32 - 1 rows" : "2^47 bytes") + "; allowed: at most ";
  if (steps != 0) {
    throw std::invalid_argument("capacity_steps is " + std::to_string(o.capacity_steps) + why +
                                std::to_string(steps));
  }
  const std::size_t least_chunks = (on_top / o.shards + 1) * o.shards;
  throw std::invalid_argument("chunk_steps is " + std::to_string(o.chunk_steps) + why +
                              std::to_string(rows / least_chunks) +
                              ", more with fewer max_writers or shards");
}

/// Refuses a ratio above `max_times_sampled`, because writers would wait for samples that never
/// come.
void check_ratio(const Options& options) {
  const auto* const ratio = std::get_if<SampleToInsertRatio>(&options.rate_limiter);
  if (ratio != nullptr && options.max_times_sampled != 0 &&
      ratio->samples_per_insert > static_cast<double>(options.max_times_sampled)) {
    throw std::invalid_argument(
        base::text("SampleToInsertRatio::samples_per_insert is ", ratio->samples_per_insert,
                   "; allowed: at most max_times_sampled = ", options.max_times_sampled,
                   ", as no step is sampled more often"));
  }
}

}  // namespace

void refuse_disk(const Storage& storage, int error, const char* what, std::size_t bytes) {
  throw std::system_error(
      error, std::generic_category(),
      base::text("storage: MappedFile in '", std::get<MappedFile>(storage).path.string(),
                 "': disk space for ", what, ", ", bytes, " bytes"));
}

void check_storage(const Storage& storage) {
  const MappedFile* const file = std::get_if<MappedFile>(&storage);
  if (file != nullptr && file->path.empty()) {
    throw std::invalid_argument(
        "storage: the path of MappedFile is empty; allowed: a directory, or a name in one at which "
        "there is nothing");
  }
}

Plan make_plan(const Options& options, const storage::RowLayout& layout,
               const window::WindowSpec& window) {
  Options o = options;
  require(o.capacity_steps >= 1 && o.capacity_steps <= kMaxSlots, "capacity_steps",
          o.capacity_steps, "1 to " + std::to_string(kMaxSlots));
  require(o.max_writers >= 1 && o.max_writers <= kMaxWriters, "max_writers", o.max_writers,
          "1 to " + std::to_string(kMaxWriters));
  require(!o.selectors.empty() && o.selectors.size() <= kMaxSelectors, "number of selectors",
          o.selectors.size(), "1 to " + std::to_string(kMaxSelectors));
  check_storage(o.storage);
  check_ratio(o);
  require(!o.key_tag || *o.key_tag <= ItemKey::kTagMask, "key_tag", o.key_tag.value_or(0),
          "0 to " + std::to_string(ItemKey::kTagMask));

  if (!o.key_tag) {
    o.key_tag = static_cast<std::uint16_t>(std::random_device{}() & ItemKey::kTagMask);
  }
  const std::size_t most_shards = std::min(o.capacity_steps, kMaxShards);
  if (o.shards == 0) {
    o.shards = o.capacity_steps < kOneShardBelow ? 1 : kDefaultShards;
  }
  require(o.shards <= most_shards, "shards", o.shards,
          "1 to min(capacity_steps, " + std::to_string(kMaxShards) +
              ") = " + std::to_string(most_shards));

  if (o.chunk_steps == 0) {
    o.chunk_steps = default_chunk_rows(o, window);
  }
  const std::size_t least = window.min_chunk_rows();
  require(o.chunk_steps >= least && o.chunk_steps <= kMaxSlots, "chunk_steps", o.chunk_steps,
          window.min_chunk_rows_in_words() + " = " + std::to_string(least) + " to " +
              std::to_string(kMaxSlots));

  const auto rows = static_cast<std::uint32_t>(o.chunk_steps);
  const std::size_t items = window.min_items(rows);
  const std::size_t chunks = (o.capacity_steps + items - 1) / items + chunks_on_top(o);
  const std::size_t per_shard = (chunks + o.shards - 1) / o.shards;
  require_room(o, items, layout.stride() + layout.state_stride());
  const std::size_t usual_items = o.shards * (rows - window.context_rows());
  const std::size_t usual_chunks = (o.capacity_steps + usual_items - 1) / usual_items + 1;
  return {std::move(o), rows, static_cast<std::uint32_t>(per_shard), usual_chunks};
}

}  // namespace reprise::buffer
