#include "save/stored_buffer.hpp"

namespace reprise::save {
namespace {

/// The most items that a checkpoint may have decided: more than any buffer will decide, and so few
/// that the count cannot overflow afterwards.
constexpr std::uint64_t kMostItemNumbers = std::uint64_t{1} << 62U;

}  // namespace

StoredBuffer::StoredBuffer(record::Decoder& from, std::size_t selectors) {
  for (std::uint64_t* const count :
       {&sampled_items, &sampled_batches, &applied_updates, &stale_updates, &closed_chunks,
        &writer_ingests, &item_numbers, &episode_blocks, &limiter_samples}) {
    *count = from.u64();
  }
  if (item_numbers > kMostItemNumbers) {
    from.refuse(item_numbers, " items decided; allowed: at most ", kMostItemNumbers);
  }
  alphas.resize(from.count(sizeof(float)));
  if (alphas.size() != selectors) {
    from.refuse(alphas.size(), " selectors; there are ", selectors);
  }
  for (float& alpha : alphas) {
    alpha = from.f32();
  }
  writer_positions.resize(from.count(kWriterPositionBytes));
  for (buffer::WriterSlots::WriterPosition& writer_position : writer_positions) {
    writer_position.chunk = from.u32();
    writer_position.next_shard = from.u32();
    writer_position.next_episode = from.u64();
  }
  samplers.resize(from.count(sizeof(base::Random::State)));
  for (base::Random::State& state : samplers) {
    for (std::uint64_t& word : state) {
      word = from.u64();
    }
    if (state == base::Random::State{}) {
      from.refuse("a sampler's random numbers have no state");
    }
  }
  from.finish();
}

}  // namespace reprise::save
