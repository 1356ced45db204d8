#pragma once

#include <reprise/options.hpp>

#include "shard/locked_shard.hpp"
#include "storage/row_layout.hpp"
#include "window/window_spec.hpp"

#include <cstddef>
#include <cstdint>

namespace reprise::buffer {

/// The most selectors of one buffer; bounds arrays on the stack.
inline constexpr std::size_t kMaxSelectors = 16;
using shard::kMaxShards;

/// Options with every default filled in, and the memory that follows from them.
struct Plan {
  Options options;
  std::uint32_t chunk_rows = 0;
  std::uint32_t chunks_per_shard = 0;
  /// Chunks per shard that hold the capacity while episodes are much longer than windows: disk
  /// space and huge pages are for these.
  std::size_t usual_chunks = 0;
  shard::Extras extras;
};

/// Throws std::invalid_argument for numbers of writers and selectors that no buffer may have.
void check_outline(const Options& options);

/// Throws std::invalid_argument for a ratio above `max_times_sampled`, because writers would wait
/// for samples that never come.
void check_ratio(const Options& options);

/// Throws std::invalid_argument for a mapped file without a path.
void check_storage(const Storage& storage);

/// Throws `std::system_error` with `error`: the disk of a `MappedFile` has no space for `bytes`
/// more bytes.
[[noreturn]] void refuse_disk(const Storage& storage, int error, const char* what,
                              std::size_t bytes);

/// Chunks are counted so that `capacity_steps` stays resident whatever writers hold open:
/// - ceil(capacity_steps / fewest items in a filled chunk) hold the items;
/// - 1 per shard is partly evicted, because it is the oldest or the remover's choice;
/// - 1 per writer is open;
/// - 1 per writer and shard was partly evicted while it was open, and then filled: the next such
///   chunk of that writer in that shard comes up for eviction only after this one has gone, or,
///   with a remover that chooses, only after all filled ones have (`shard/victims.hpp`);
/// - 2 per shard may be retired and still pinned; with more than that writers wait for a gather;
/// - with max_times_sampled or max_staleness, 1 more per writer and shard lost exhausted items from
///   its front (`DrawLimit`, max_partial), and 1 per shard is the remover's choice beside the
///   oldest.
///
/// Throws std::invalid_argument that names the option, its value and what is allowed, and shows the
/// sum if there is one.
Plan make_plan(const Options& options, const storage::RowLayout& layout,
               const window::WindowSpec& window);

}  // namespace reprise::buffer
