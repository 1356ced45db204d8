#pragma once

#include <reprise/remote.hpp>

#include "testing/test.hpp"

namespace reprise::test {

inline Options shard_options(std::size_t capacity = 512) {
  return SmallOptions{.capacity_steps = capacity,
                      .window = Transitions{.n_step = 1},
                      .chunk_steps = 16,
                      .shards = 2};
}

/// Shards with a client that draws from them. Step i of shard s has the number s * kNumbersPerShard
/// + i, and its expected weight is `weights[s][i]`.
class Shards {
 public:
  static constexpr std::uint64_t kNumbersPerShard = 1'000'000;

  explicit Shards(std::size_t count, const Options& options = shard_options()) {
    for (std::size_t s = 0; s < count; ++s) {
      lines.push_back(std::make_unique<NumberedBuffer>(options));
      writers.push_back(lines.back()->replay.writer());
      shards.push_back(std::make_unique<ReplayShard>(lines.back()->replay, s));
    }
    weights.resize(count);
    client = std::make_unique<ShardClient>(lines[0]->schema, options, count,
                                           ShardClientOptions{.seed = 3});
  }

  void append_to_each(std::size_t count) {
    for (std::size_t s = 0; s < shards.size(); ++s) {
      for (std::size_t i = 0; i < count; ++i) {
        append(s, 1.0F);
      }
    }
  }
  void append(std::size_t shard, float weight) {
    const std::uint64_t number = shard * kNumbersPerShard + weights[shard].size();
    lines[shard]->append(writers[shard], number, weight);
    weights[shard].push_back(weight);
  }
  [[nodiscard]] double total(std::size_t shard) const {
    return std::accumulate(weights[shard].begin(), weights[shard].end(), 0.0);
  }
  [[nodiscard]] float& weight_of(std::uint64_t number) {
    return weights[number / kNumbersPerShard][number % kNumbersPerShard];
  }

  /// Updates an item of shard 0 through the client. Returns the number of stale updates.
  std::size_t update(ItemKey key, float priority) {
    constexpr std::uint32_t kShard = 0;
    const std::uint64_t incarnation = shards[0]->incarnation();
    return client->update({&key, 1}, {&kShard, 1}, {&incarnation, 1}, {&priority, 1});
  }

  void exchange_with(std::size_t shard) {
    client->answer(shard, shards[shard]->exchange(client->request(shard).bytes()).bytes());
  }
  void exchange_with_all() {
    for (std::size_t s = 0; s < shards.size(); ++s) {
      exchange_with(s);
    }
  }
  [[nodiscard]] Batch make_batch(std::size_t n, bool unique_frames = false) const {
    return client->make_batch(n, nullptr, unique_frames);
  }
  [[nodiscard]] std::span<const std::uint64_t> numbers(const Batch& batch) const {
    return batch.now(lines[0]->id);
  }

  std::vector<std::unique_ptr<NumberedBuffer>> lines;
  std::vector<Writer> writers;
  std::vector<std::unique_ptr<ReplayShard>> shards;
  std::vector<std::vector<float>> weights;
  std::unique_ptr<ShardClient> client;
};

}  // namespace reprise::test
