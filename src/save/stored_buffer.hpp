#pragma once

#include "base/random.hpp"
#include "buffer/writer_slots.hpp"
#include "record/codec.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::save {

/// The state of the buffer as a whole: counters, exponents, writer positions and samplers.
struct StoredBuffer {
  /// Bytes of one writer position in the state; it has one for each of `max_writers`.
  static constexpr std::size_t kWriterPositionBytes = 16;

  /// Decodes the state of a buffer with this number of selectors. Throws `CheckpointError`
  /// (`Damaged`).
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
