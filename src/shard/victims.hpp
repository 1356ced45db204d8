#pragma once

#include <reprise/remover.hpp>

#include "shard/chunk_queue.hpp"
#include "storage/free_list.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace reprise::shard {

/// Which chunk of a shard the next steps are evicted from.
///
/// Without a remover, which is `Fifo`, the oldest of the order. With one, the chunk that it chose
/// among the filled ones, until that has no items left; while no filled chunk has any, the oldest.
/// So a chunk loses items before it is filled only while all items are in such chunks (or to a
/// limit of draws, see `DrawLimit`): of partly evicted ones there are, whatever the remover does,
/// one that it chose and one per writer at most, which `buffer/plan.hpp` counts on.
///
/// Externally synchronised by the shard's lock. Chunks are numbered as in the buffer here, and from
/// 0 in what the remover hears. `next` asks the remover once per chunk; otherwise all is O(1).
class Victims {
 public:
  Victims(const Remover& remover, const ShardChunks& chunks, std::uint32_t first_chunk)
      : first_chunk_(first_chunk),
        remover_(remover.make_shard_remover(chunks)),
        wants_samples_(remover_ != nullptr && remover_->wants_samples()) {}

  /// A chunk with items was closed.
  void filled(std::uint32_t chunk) noexcept {
    if (remover_ != nullptr) {
      ++filled_;
      remover_->enters(chunk - first_chunk_);
    }
  }
  /// It has no items left.
  void emptied(std::uint32_t chunk) noexcept {
    if (remover_ != nullptr) {
      --filled_;
      victim_ = victim_ == chunk ? storage::kNil : victim_;
      remover_->leaves(chunk - first_chunk_);
    }
  }

  /// Needs a chunk in the order.
  [[nodiscard]] std::uint32_t next(const ChunkQueue& order) noexcept {
    if (filled_ == 0) {
      return order.oldest();
    }
    if (victim_ == storage::kNil) {
      victim_ = choose(order);
    }
    return victim_;
  }

  /// For tests: whether this many chunks are filled, as far as anybody counts.
  [[nodiscard]] bool agree(std::uint32_t filled) const noexcept {
    return remover_ == nullptr || filled_ == filled;
  }

  [[nodiscard]] bool has_remover() const noexcept { return remover_ != nullptr; }
  [[nodiscard]] bool wants_samples() const noexcept { return wants_samples_; }
  /// One chunk per item drawn, all of them filled, numbered from 0.
  void sampled(std::span<const std::uint32_t> chunks) noexcept { remover_->sampled(chunks); }

 private:
  /// A user's remover may answer anything: the oldest filled chunk then. O(chunks not filled).
  [[nodiscard]] std::uint32_t choose(const ChunkQueue& order) noexcept {
    const std::uint32_t victim = remover_->victim();
    if (victim < order.size() && order[first_chunk_ + victim].filled()) {
      return first_chunk_ + victim;
    }
    std::uint32_t chunk = order.oldest();
    while (!order[chunk].filled()) {
      chunk = order[chunk].newer;
    }
    return chunk;
  }

  const std::uint32_t first_chunk_;
  const std::unique_ptr<ShardRemover> remover_;
  const bool wants_samples_;
  std::uint32_t filled_ = 0;  ///< Chunks that the remover may choose.
  std::uint32_t victim_ = storage::kNil;
};

}  // namespace reprise::shard
