#pragma once

#include "testing/test.hpp"

#include <filesystem>

namespace reprise::test {

/// Random calls to a buffer in one thread: several writers with episodes of random lengths, a
/// sampler whose batches are recorded, and updates. All calls follow from the seed.
class RandomRun {
 public:
  /// The contents of a batch. It has slots instead of keys, because generations differ after a
  /// load.
  struct RecordedBatch {
    std::vector<std::uint64_t> ids;
    std::vector<std::uint32_t> slots;
    std::vector<std::uint64_t> episodes;
    std::vector<std::uint64_t> positions;
    std::vector<std::uint32_t> lengths;
    std::vector<double> probabilities;
    std::vector<float> weights;
    std::vector<float> rewards;
    std::vector<std::uint64_t> next;

    friend bool operator==(const RecordedBatch&, const RecordedBatch&) = default;
  };

  RandomRun(const Options& options, std::size_t writers, std::uint64_t seed,
            Draws draws = Draws::Stratified);
  /// Continues the calls of `other` with a buffer loaded from the checkpoint in `directory`.
  RandomRun(const std::filesystem::path& directory, const RandomRun& other);

  /// Commits `count` steps, with a batch and an update now and then. Adds the batches to `batches`.
  void run_steps(std::size_t count, std::vector<RecordedBatch>* batches = nullptr);
  /// Ends the open episodes.
  void end_episodes();
  SaveResult save(const std::filesystem::path& directory, SaveOptions options = {});

  [[nodiscard]] ReplayBuffer& replay() { return replay_; }
  /// Keys of the last batch.
  [[nodiscard]] const std::vector<ItemKey>& keys() const { return keys_; }
  [[nodiscard]] ScalarObservation<std::uint64_t> id() const { return id_; }

 private:
  void open(std::size_t writers, const SamplerOptions& options);
  void append_step(Writer& writer, End end);
  void draw_batch(std::vector<RecordedBatch>* batches);

  Schema schema_;
  ScalarObservation<std::uint64_t> id_ = schema_.observation<std::uint64_t>("id");
  Reward reward_ = schema_.reward("reward");
  ReplayBuffer replay_;
  std::vector<Writer> writers_;
  std::optional<Sampler> sampler_;
  Rng rng_;
  Draws draws_ = Draws::Stratified;
  std::uint64_t next_id_ = 1;
  std::vector<ItemKey> keys_;
};

}  // namespace reprise::test
