#pragma once

#include "base/random.hpp"
#include "buffer/writer_slots.hpp"
#include "limiter/gates.hpp"
#include "record/codec.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::save {

/// The state of the buffer as a whole.
struct StoredBuffer {
  using WriterPosition = buffer::WriterSlots::WriterPosition;

  struct Counts {
    std::uint64_t sampled_items = 0;
    std::uint64_t sampled_batches = 0;
    std::uint64_t applied_updates = 0;
    std::uint64_t stale_updates = 0;
    std::uint64_t closed_chunks = 0;
    std::uint64_t writer_ingests = 0;
    std::uint64_t item_numbers = 0;
    std::uint64_t episode_blocks = 0;
    std::uint64_t limiter_samples = 0;
  };

  Counts counts;
  /// The ratio of the limiter, if it differs from the ratio in the options.
  std::optional<limiter::RatioTerms> ratio;
  std::vector<float> alphas;                     ///< By selector; below 0 without an exponent.
  std::vector<WriterPosition> writer_positions;  ///< One for each of `max_writers`.
  std::vector<base::Random::State> samplers;
  std::int64_t version = 0;  ///< The version of the policy.
};

void encode(record::Encoder& to, const StoredBuffer& buffer);
/// Decodes the state of a buffer with this number of selectors, of a version up to
/// `kStateVersionRatio`. Throws `CheckpointError` (`Damaged`) for a state that no buffer can have.
[[nodiscard]] StoredBuffer decode_buffer(record::Decoder& from, std::uint32_t state_version,
                                         std::size_t selectors);

}  // namespace reprise::save
