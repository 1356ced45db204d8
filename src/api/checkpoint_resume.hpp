#pragma once

#include "api/buffer_core.hpp"
#include "checkpoint/codec.hpp"
#include "shard/shard_image.hpp"

#include <cstdint>
#include <vector>

namespace reprise::detail {

/// What of the whole buffer is in a state of its own.
struct StoredBuffer {
  /// Throws `CheckpointError` (`Damaged`).
  StoredBuffer(checkpoint::Decoder& from, const BufferCore& core);

  std::uint64_t sampled_items = 0;
  std::uint64_t sampled_batches = 0;
  std::uint64_t applied_updates = 0;
  std::uint64_t stale_updates = 0;
  std::uint64_t turnovers = 0;
  std::uint64_t writer_ingests = 0;
  std::uint64_t orders = 0;
  std::uint64_t episode_blocks = 0;
  std::uint64_t limiter_samples = 0;
  std::vector<float> alphas;
  std::vector<api::WriterSlots::Seat> seats;
  std::vector<base::Random::State> samplers;
};

/// Brings a buffer that nobody else has yet to where it was saved. Rows, priorities and order of
/// the images' chunks are in place; the images are changed on the way. `std::invalid_argument` for
/// an exponent that cannot be.
void resume(BufferCore& core, std::vector<shard::ShardImage>& images, const StoredBuffer& stored);

}  // namespace reprise::detail
