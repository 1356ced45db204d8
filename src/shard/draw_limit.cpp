#include "shard/draw_limit.hpp"

#include <algorithm>
#include <numeric>

namespace reprise::shard {
namespace {

// The rank of a chunk's front has the kind of the chunk in its highest two bits, and below them the
// larger a number the older the chunk is. So the largest rank is that of the front to evict next.
constexpr std::uint64_t kKind = std::uint64_t{1} << 62U;
constexpr std::uint64_t kPartialChunk = 3 * kKind;  ///< The chunk has lost steps.
constexpr std::uint64_t kWholeChunk = 2 * kKind;    ///< The chunk is filled, and all front.
constexpr std::uint64_t kFront = kKind;             ///< Any other chunk.

}  // namespace

DrawLimit::DrawLimit(storage::ChunkStore& store, const ChunkQueue& queue, Budget& budget,
                     Selection& selection, std::uint32_t first_chunk, std::uint32_t times,
                     std::size_t max_partial, bool may_outdate)
    : store_(store),
      queue_(queue),
      budget_(budget),
      selection_(selection),
      first_chunk_(first_chunk),
      limited_(times != 0),
      times_(std::max(times, 1U)),
      max_partial_(max_partial),
      counts_(limited_ || may_outdate ? std::size_t{queue.size()} * store.chunk_rows() : 0),
      uses_(limited_ || may_outdate ? queue.size() : 0),
      ranks_(limited_ || may_outdate ? queue.size() : 0) {}

void DrawLimit::exhaust(std::span<const std::uint32_t> leaves) noexcept {
  selection_.hide(leaves);
  count_exhausted(leaves);
}

/// Counts these items as exhausted, and brings the fronts of their chunks up to date.
void DrawLimit::count_exhausted(std::span<const std::uint32_t> leaves) noexcept {
  exhausted_ += leaves.size();
  budget_.add_exhausted(static_cast<std::ptrdiff_t>(leaves.size()));
  for (const std::uint32_t leaf : leaves) {
    const auto [in_shard, row] = store_.place(leaf);
    Use& use = uses_[in_shard];
    // Only two items of a chunk change the rank of its front. The item at the end of the front
    // lets the front grow. The chunk's first exhausted item, even if it comes after the front, does
    // because the front may already hold steps without an item.
    if (++use.exhausted == 1 || row == use.front) {
      changed(first_chunk_ + in_shard);
    }
  }
}

void DrawLimit::give_up(std::span<const std::uint32_t> leaves) noexcept {
  for (const std::uint32_t leaf : leaves) {
    draws_ += times_ - counts_[leaf];
    counts_[leaf] = times_;
  }
  count_exhausted(leaves);
}

void DrawLimit::enter(const Rows& rows, std::span<const SelectorSummary> /*others*/) noexcept {
  std::fill_n(counts_.data() + rows.first_leaf, rows.size(), 0U);
  if (queue_[rows.chunk].steps == 0 && rows.steps != 0) {
    use(rows.chunk).joined = joined_++;  // The chunk joins the queue at the young end.
  }
}

void DrawLimit::leave(const Rows& rows) noexcept {
  Use& use = this->use(rows.chunk);
  const std::uint32_t* const first = counts_.data() + rows.first_leaf;
  const std::uint32_t* const last = first + rows.size();
  if (use.exhausted != 0) {
    const auto exhausted = std::count(first, last, times_);
    use.exhausted -= static_cast<std::uint32_t>(exhausted);
    exhausted_ -= static_cast<std::size_t>(exhausted);
    budget_.add_exhausted(-exhausted);
  }
  draws_ -= std::accumulate(first, last, std::size_t{0});
  use.front_steps -= static_cast<std::uint32_t>(std::min<std::size_t>(use.front_steps, rows.steps));
}

void DrawLimit::changed(std::uint32_t chunk) noexcept {
  move_front(chunk);
  Use& use = this->use(chunk);
  if (const bool partial = is_partial(chunk); use.partial != partial) {
    use.partial = partial;
    partial_ += partial ? 1U : std::size_t{0} - 1U;
  }
  if (const std::uint64_t rank = rank_of(chunk); ranks_[chunk - first_chunk_] != rank) {
    ranks_.assign(chunk - first_chunk_, rank);
  }
}

void DrawLimit::store(std::span<const std::uint32_t> leaves, ShardImage& image,
                      std::size_t at) const noexcept {
  for (std::size_t i = 0; limited() && i < leaves.size(); ++i) {
    image.draws[at + i] = counts_[leaves[i]];
  }
}

void DrawLimit::restore(std::span<const std::uint32_t> leaves, const ShardImage& image,
                        std::size_t at) noexcept {
  for (std::size_t i = 0; limited() && i < leaves.size(); ++i) {
    const std::uint32_t leaf = leaves[i];
    counts_[leaf] = std::min(image.draws[at + i], times_);
    draws_ += counts_[leaf];
    if (exhausted(leaf)) {
      exhaust({&leaf, 1});
    }
  }
}

Memory DrawLimit::memory() const noexcept {
  const std::size_t chunks = uses_.size();
  return {chunks * store_.chunk_rows() * sizeof(std::uint32_t),
          chunks * sizeof(Use) + tree::LargestTree<std::uint64_t>::bytes(chunks)};
}

DrawLimit::Victim DrawLimit::front() const noexcept {
  const std::uint64_t rank = ranks_.largest();
  if (rank == 0 || (rank < kWholeChunk && partial_ >= max_partial_)) {
    return {};
  }
  const std::uint32_t chunk = first_chunk_ + ranks_.largest_leaf();
  return {chunk, use(chunk).front_steps};
}

void DrawLimit::publish_front() noexcept {
  if (const bool has_front = front().steps != 0; has_front != front_published_) {
    front_published_ = has_front;
    budget_.publish_front(has_front);
  }
}

/// Extends the front over the steps after it that cannot be drawn again.
void DrawLimit::move_front(std::uint32_t chunk) noexcept {
  Use& use = this->use(chunk);
  const ChunkState& state = queue_[chunk];
  const float* const priorities = store_.priorities(chunk);
  const std::uint32_t first = first_leaf(chunk);
  use.front = std::max(use.front, state.deselected);
  while (use.front < state.ingested &&
         !(storage::is_item(priorities[use.front]) && counts_[first + use.front] != times_)) {
    use.front_steps += priorities[use.front] == storage::kNotAStep ? 0U : 1U;
    ++use.front;
  }
}

/// The rank of a chunk's front. It is 0 if the chunk has no steps or an empty front, or if the
/// front has no exhausted item and evicting it would free no memory.
std::uint64_t DrawLimit::rank_of(std::uint32_t chunk) const noexcept {
  const Use& use = this->use(chunk);
  const ChunkState& state = queue_[chunk];
  const bool whole = state.closed && use.front == state.ingested;
  if (state.steps == 0 || use.front_steps == 0 ||
      (use.exhausted == 0 && !whole && !is_partial(chunk))) {
    return 0;
  }
  return (is_partial(chunk) ? kPartialChunk : (whole ? kWholeChunk : kFront)) +
         (kKind - 1 - use.joined);
}

}  // namespace reprise::shard
