// A remover of the user's own. Chunks leave at random, so that a full buffer holds steps of all
// ages, the fewer the older they are. (De Bruin et al., "The importance of experience replay
// database composition in deep reinforcement learning", 2015, show why that helps.)
#include <reprise/reprise.hpp>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

struct AtRandom {
  std::uint32_t seed = 1;

  // Each shard has a Part, and calls it under the shard's lock, so no call may throw or allocate.
  class Part final : public reprise::ShardRemover {
   public:
    Part(std::uint32_t chunks, std::uint32_t seed) : index_in_filled_(chunks), random_(seed) {
      filled_.reserve(chunks);
    }
    void enters(std::uint32_t chunk) noexcept override {
      index_in_filled_[chunk] = filled_.size();
      filled_.push_back(chunk);
    }
    void leaves(std::uint32_t chunk) noexcept override {
      filled_[index_in_filled_[chunk]] = filled_.back();
      index_in_filled_[filled_.back()] = index_in_filled_[chunk];
      filled_.pop_back();
    }
    std::uint32_t victim() noexcept override { return filled_[random_() % filled_.size()]; }

   private:
    std::vector<std::uint32_t> filled_;
    std::vector<std::size_t> index_in_filled_;  // For each chunk, its index in filled_.
    std::minstd_rand random_;
  };

  [[nodiscard]] std::unique_ptr<reprise::ShardRemover> make_shard_remover(
      const reprise::ShardChunks& c) const {
    return std::make_unique<Part>(c.chunks(), seed);
  }
};

int main() {
  reprise::Schema schema;
  const auto number = schema.observation<float>("number");
  reprise::ReplayBuffer replay(schema, {.capacity_steps = 10'000, .remover = AtRandom{}});
  auto writer = replay.writer();
  writer.begin_episode();
  writer.now(number) = 0.0F;
  for (int n = 1; n <= 50'000; ++n) {
    writer.next(number) = static_cast<float>(n);
    writer.commit(reprise::End::Continue);
  }
  auto sampler = replay.sampler({.seed = 1});
  const auto batch = sampler.sample(8);
  for (const float n : batch->now(number)) {
    std::printf("a step from %.0f steps ago\n", 50'000.0 - double{n});
  }
}
