#pragma once

#include "storage/free_list.hpp"

#include <cstdint>
#include <vector>

namespace reprise::shard {

/// The state of one chunk, guarded by the shard's lock.
struct ChunkState {
  std::uint32_t ingested = 0;    ///< Rows [0, ingested) were ingested.
  std::uint32_t deselected = 0;  ///< Rows [0, deselected) have left the selectors.
  std::uint32_t steps = 0;       ///< Steps in rows [deselected, ingested).
  std::uint32_t steps_without_item = 0;
  std::uint32_t generation = 0;       ///< The present generation.
  std::uint32_t next_generation = 1;  ///< The generation that retiring the chunk gives it.
  /// The generation of rows [0, restored), which a load put here with the generation that they had
  /// at the save, so that keys from before the save stay valid.
  std::uint32_t generation_before = 0;
  std::uint32_t restored = 0;
  std::uint64_t turn = 0;  ///< While it has steps, its place in the eviction order (`Budget`).
  std::uint32_t older = storage::kNil;
  std::uint32_t newer = storage::kNil;
  bool closed = false;  ///< Its writer's last bell was answered, so no writer has the chunk.

  [[nodiscard]] std::uint32_t generation_of(std::uint32_t row) const noexcept {
    return row < restored ? generation_before : generation;
  }
  /// Whether a remover may choose the chunk: it is closed and has steps.
  [[nodiscard]] bool filled() const noexcept { return closed && steps != 0; }
};

/// The states of a shard's chunks, and its eviction order: a queue of the chunks with steps, by the
/// time at which their first step was ingested. A chunk that runs out of steps while it is open
/// leaves the queue, and its next step puts it at the young end. So a slow writer never delays
/// eviction (I6).
///
/// Externally synchronised. Every operation is O(1).
class ChunkQueue {
 public:
  ChunkQueue(std::uint32_t first_chunk, std::uint32_t chunks)
      : first_chunk_(first_chunk), states_(chunks) {}

  [[nodiscard]] ChunkState& operator[](std::uint32_t chunk) noexcept {
    return states_[chunk - first_chunk_];
  }
  [[nodiscard]] const ChunkState& operator[](std::uint32_t chunk) const noexcept {
    return states_[chunk - first_chunk_];
  }
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(states_.size());
  }
  [[nodiscard]] std::uint32_t oldest() const noexcept { return oldest_; }
  /// How many chunks have steps.
  [[nodiscard]] std::uint32_t length() const noexcept { return length_; }

  void append(std::uint32_t chunk) noexcept {
    ++length_;
    ChunkState& state = (*this)[chunk];
    state.older = youngest_;
    state.newer = storage::kNil;
    link_behind(youngest_) = chunk;
    youngest_ = chunk;
  }

  void remove(std::uint32_t chunk) noexcept {
    --length_;
    const ChunkState& state = (*this)[chunk];
    link_behind(state.older) = state.newer;
    link_before(state.newer) = state.older;
  }

 private:
  /// The link to the chunk behind this one; behind kNil is the oldest, before kNil the youngest.
  [[nodiscard]] std::uint32_t& link_behind(std::uint32_t chunk) noexcept {
    return chunk == storage::kNil ? oldest_ : (*this)[chunk].newer;
  }
  [[nodiscard]] std::uint32_t& link_before(std::uint32_t chunk) noexcept {
    return chunk == storage::kNil ? youngest_ : (*this)[chunk].older;
  }
  const std::uint32_t first_chunk_;
  std::vector<ChunkState> states_;
  std::uint32_t oldest_ = storage::kNil;
  std::uint32_t youngest_ = storage::kNil;
  std::uint32_t length_ = 0;
};

}  // namespace reprise::shard
