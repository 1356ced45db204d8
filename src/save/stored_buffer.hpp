#pragma once

#include "base/random.hpp"
#include "buffer/writer_slots.hpp"
#include "record/codec.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::save {

/// What of the whole buffer is in a state of its own.
struct StoredBuffer {
  /// That each writer there may be takes in it.
  static constexpr std::size_t kWriterPositionBytes = 16;

  /// Of a buffer of so many selectors. Throws `CheckpointError` (`Damaged`).
  StoredBuffer(record::Decoder& from, std::size_t selectors);

  std::uint64_t sampled_items = 0;
  std::uint64_t sampled_batches = 0;
  std::uint64_t applied_updates = 0;
  std::uint64_t stale_updates = 0;
  std::uint64_t closed_chunks = 0;
  std::uint64_t writer_ingests = 0;
  std::uint64_t item_numbers = 0;
  std::uint64_t episode_blocks = 0;
  std::uint64_t limiter_samples = 0;
  std::vector<float> alphas;
  std::vector<buffer::WriterSlots::WriterPosition> writer_positions;
  std::vector<base::Random::State> samplers;
};

}  // namespace reprise::save
