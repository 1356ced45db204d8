#pragma once

#include <reprise/remover.hpp>
#include <reprise/selector.hpp>

#include "shard/chunk_queue.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::shard {

/// The facts about chunks that a shard's remover may ask for. Externally synchronised by the
/// shard's lock.
class ChunkFacts final : public ShardChunks {
 public:
  using Selectors = std::vector<std::unique_ptr<ShardSelector>>;

  ChunkFacts(const ChunkQueue& queue, const Selectors& selectors, std::uint32_t first_chunk,
             std::uint32_t chunk_rows) noexcept
      : queue_(queue), selectors_(selectors), first_chunk_(first_chunk), chunk_rows_(chunk_rows) {}

  [[nodiscard]] std::uint32_t chunks() const noexcept override { return queue_.size(); }
  [[nodiscard]] std::size_t selectors() const noexcept override { return selectors_.size(); }
  [[nodiscard]] std::uint32_t steps(std::uint32_t chunk) const noexcept override {
    return chunk < chunks() ? queue_[first_chunk_ + chunk].steps : 0;
  }
  [[nodiscard]] double weight(std::uint32_t chunk, std::size_t selector) const noexcept override {
    return chunk < chunks() && selector < selectors()
               ? selectors_[selector]->sum(chunk * chunk_rows_, chunk_rows_)
               : 0.0;
  }

 private:
  const ChunkQueue& queue_;
  const Selectors& selectors_;
  const std::uint32_t first_chunk_;
  const std::uint32_t chunk_rows_;
};

}  // namespace reprise::shard
