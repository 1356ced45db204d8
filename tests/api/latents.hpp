#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// A value of a mutable column. Its 14 bytes are not a multiple of a word.
using Latent = std::array<std::uint16_t, 7>;

/// The value that write number `write` gives to a step. Its first element is that number.
inline Latent latent_of(std::uint64_t step, std::uint64_t write) {
  Latent latent;
  for (std::size_t i = 0; i < latent.size(); ++i) {
    latent[i] = static_cast<std::uint16_t>(Rng(step << 20U ^ write << 4U ^ i).next());
  }
  latent[0] = static_cast<std::uint16_t>(write);
  return latent;
}

/// The number of the write that gave this value; none if no write gave the step this value.
inline std::optional<std::uint64_t> write_number_in(std::uint64_t step,
                                                    std::span<const std::uint16_t> value) {
  const std::uint64_t write = value[0];
  return std::ranges::equal(value, latent_of(step, write)) ? std::optional(write) : std::nullopt;
}

/// A buffer of numbered steps with two mutable columns. Appends give `latent` write 0.
struct LatentBuffer {
  explicit LatentBuffer(Options options, bool compressed = false)
      : id(schema.observation<std::uint64_t>("id")),
        frame(schema.observation<std::uint8_t>("frame", {600})),
        other(schema.mutable_column<std::int16_t>("other")),
        fixed(schema.column<std::uint64_t>("fixed")),
        latent(schema.mutable_column<std::uint16_t>("latent", {7})),
        reward(schema.reward("reward")),
        options_(std::move(options)) {
    if (compressed) {
      schema.compress(frame);
    }
    replay.emplace(schema, options_);
  }

  CommitStatus append(Writer& writer, std::uint64_t step, End end = End::Continue) const {
    if (!writer.in_episode()) {
      writer.begin_episode();
      writer.now(id) = step;
      std::ranges::fill(writer.now(frame), static_cast<std::uint8_t>(step));
    }
    writer.now(other) = static_cast<std::int16_t>(step);
    writer.now(fixed) = step;
    std::ranges::copy(latent_of(step, 0), writer.now(latent).begin());
    writer.now(reward) = static_cast<float>(step);
    writer.next(id) = step + 1;
    std::ranges::fill(writer.next(frame), static_cast<std::uint8_t>(step + 1));
    return writer.commit(end);
  }

  /// A batch that has every item once.
  [[nodiscard]] Batch draw_all() {
    Sampler sampler = replay->sampler({.parallel_gather_bytes = kNoParallelGather});
    static_cast<void>(replay->size());
    const std::size_t items = replay->stats().items;
    Batch batch = replay->make_batch(items);
    SampleOptions each_once = kNoWait;
    each_once.draws = Draws::WithoutReplacement;
    EXPECT_EQ(sampler.sample_into(batch, 0, items, each_once).code, SampleStatus::Code::Ok);
    return batch;
  }

  /// For each step of an item, the number of the write whose value the batch has. Checks that each
  /// value is a whole value of its step, and that the other fields are as they were appended.
  [[nodiscard]] std::vector<std::uint64_t> shown_writes(const Batch& batch,
                                                        std::size_t item) const {
    const std::size_t steps = batch.now(id).size() / batch.size();
    std::vector<std::uint64_t> writes;
    for (std::size_t k = 0; k < steps; ++k) {
      const std::size_t at = item * steps + k;
      const std::span<const std::uint16_t> value = batch.now(latent).subspan(at * 7, 7);
      if (k >= batch.lengths()[item] && steps > 1) {
        EXPECT_TRUE(std::ranges::all_of(value, [](std::uint16_t part) { return part == 0; }));
        continue;
      }
      const std::uint64_t step = batch.now(id)[at];
      const std::optional<std::uint64_t> write = write_number_in(step, value);
      EXPECT_TRUE(write) << "a torn value, or of another step";
      EXPECT_EQ(batch.now(fixed)[at], step);
      EXPECT_EQ(batch.now(other)[at], static_cast<std::int16_t>(step));
      EXPECT_EQ(batch.now(reward)[at], static_cast<float>(step));
      EXPECT_EQ(batch.now(frame)[at * 600 + 599], static_cast<std::uint8_t>(step));
      writes.push_back(write.value_or(0));
    }
    return writes;
  }

  /// Writes the value of write `number` to the first step of an item.
  UpdateResult write(ItemKey key, std::uint64_t step, std::uint64_t number) {
    return replay->update({&key, 1}, latent, latent_of(step, number));
  }

  Schema schema;
  ScalarObservation<std::uint64_t> id;
  Observation<std::uint8_t> frame;
  ScalarMutableColumn<std::int16_t> other;
  ScalarColumn<std::uint64_t> fixed;
  MutableColumn<std::uint16_t> latent;
  Reward reward;
  std::optional<ReplayBuffer> replay;

 private:
  Options options_;
};

inline Options options_of(const Window& window) {
  return SmallOptions{.window = window, .selectors = {Uniform{}}, .shards = 2};
}

}  // namespace reprise::test
