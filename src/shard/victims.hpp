#pragma once

#include <reprise/remover.hpp>

#include "shard/budget.hpp"
#include "shard/chunk_pool.hpp"
#include "shard/chunk_queue.hpp"
#include "shard/draw_limit.hpp"
#include "storage/free_list.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace reprise::shard {

/// Which chunk of a shard the next steps are evicted from.
///
/// Without a remover, which is `Fifo`, the oldest of the queue. With one, the chunk that it chose
/// among the filled ones, until that has no steps left; while no filled chunk has any, the oldest.
/// So a chunk loses steps before it is filled only while all steps are in such chunks (or to a
/// limit of draws, see `DrawLimit`): of partly evicted ones there are, whatever the remover does,
/// one that it chose and one per writer at most, which `buffer/plan.hpp` counts on.
///
/// Externally synchronised by the shard's lock. Chunks are numbered as in the buffer here, and from
/// 0 in what the remover hears. `next` asks the remover once per chunk; otherwise all is O(1).
class Victims {
 public:
  /// What else the choice depends on.
  struct From {
    const ChunkQueue& queue;
    const DrawLimit& limit;
    const Budget& budget;
  };
  Victims(const Remover& remover, const ShardChunks& chunks, const From& from, const Extent& extent)
      : queue_(from.queue),
        limit_(from.limit),
        budget_(from.budget),
        first_chunk_(extent.first_chunk),
        share_(extent.share),
        remover_(remover.make_shard_remover(chunks)),
        wants_samples_(remover_ != nullptr && remover_->wants_samples()) {}

  /// A chunk with steps was closed.
  void filled(std::uint32_t chunk) noexcept {
    if (remover_ != nullptr) {
      ++filled_;
      remover_->enters(chunk - first_chunk_);
    }
  }
  /// A chunk has no steps left; `filled` if it is closed.
  void emptied(std::uint32_t chunk, bool filled) noexcept {
    if (chunk == in_turn_) {
      in_turn_ = storage::kNil;
      oldest_next_ = !oldest_next_;
    }
    if (filled && remover_ != nullptr) {
      --filled_;
      victim_ = victim_ == chunk ? storage::kNil : victim_;
      remover_->leaves(chunk - first_chunk_);
    }
  }

  /// The chunk to evict from, and at most how many of its steps, for a shard with this many in all;
  /// 0 if it is for other shards to evict: this one has its share at most, or others have exhausted
  /// items that go first. Whoever finds the buffer over its capacity asks one shard after the
  /// other.
  [[nodiscard]] DrawLimit::Victim next(std::size_t steps) noexcept {
    if (limit_.limited()) {
      if (const DrawLimit::Victim front = limit_.front(); front.steps != 0) {
        return front;
      }
      if (limit_.others_have_fronts()) {
        return {};
      }
      if (budget_.exhausted() != 0) {
        if (steps == 0 || !limit_.has_its_part(share_)) {
          return {};
        }
        // A remover may like exhausted items best, so the oldest chunk takes turns with its choice.
        in_turn_ = oldest_next_ ? queue_.oldest() : chosen();
        return {in_turn_, queue_[in_turn_].steps};
      }
    }
    if (steps <= share_) {
      return {};
    }
    const std::uint32_t chunk = chosen();
    return {chunk, std::min<std::size_t>(steps - share_, queue_[chunk].steps)};
  }

  /// For tests: whether this many chunks are filled, as far as anybody counts.
  [[nodiscard]] bool agree(std::uint32_t filled) const noexcept {
    return remover_ == nullptr || filled_ == filled;
  }

  [[nodiscard]] bool wants_samples() const noexcept { return wants_samples_; }
  /// One chunk per item drawn, all of them filled, numbered from 0.
  void sampled(std::span<const std::uint32_t> chunks) noexcept { remover_->sampled(chunks); }

 private:
  /// Not if the queue is empty.
  [[nodiscard]] std::uint32_t chosen() noexcept {
    if (filled_ == 0) {
      return queue_.oldest();
    }
    if (victim_ == storage::kNil) {
      victim_ = ask_remover();
    }
    return victim_;
  }

  /// A user's remover may answer anything: the oldest filled chunk then. O(chunks not filled).
  [[nodiscard]] std::uint32_t ask_remover() noexcept {
    const std::uint32_t victim = remover_->victim();
    if (victim < queue_.size() && queue_[first_chunk_ + victim].filled()) {
      return first_chunk_ + victim;
    }
    std::uint32_t chunk = queue_.oldest();
    while (!queue_[chunk].filled()) {
      chunk = queue_[chunk].newer;
    }
    return chunk;
  }

  const ChunkQueue& queue_;
  const DrawLimit& limit_;
  const Budget& budget_;
  const std::uint32_t first_chunk_;
  const std::size_t share_;
  const std::unique_ptr<ShardRemover> remover_;
  const bool wants_samples_;
  std::uint32_t filled_ = 0;  ///< Chunks that the remover may choose.
  std::uint32_t victim_ = storage::kNil;
  // With a limit of draws.
  bool oldest_next_ = false;  ///< Whether the next victim is the oldest chunk, not the choice.
  std::uint32_t in_turn_ = storage::kNil;  ///< That victim.
};

}  // namespace reprise::shard
