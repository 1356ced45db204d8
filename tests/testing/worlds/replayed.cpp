#include "replayed.hpp"

#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// Share of the steps that end an episode; half of them terminate, half truncate it.
constexpr double kEndShare = 0.05;
constexpr double kBatchesPerStep = 0.2;
constexpr std::size_t kBatch = 16;

template <class T>
std::vector<T> to_vector(std::span<T> from) {
  return {from.begin(), from.end()};
}

}  // namespace

RandomRun::RandomRun(const Options& options, std::size_t writers, std::uint64_t seed, Draws draws)
    : replay_(schema_, options), rng_(seed), draws_(draws) {
  open(writers, {.seed = seed});
}

RandomRun::RandomRun(const std::filesystem::path& directory, const RandomRun& other)
    : replay_(ReplayBuffer::load(directory).buffer), rng_(other.rng_), next_id_(other.next_id_) {
  open(other.writers_.size(), {.resume = 0});
}

void RandomRun::open(std::size_t writers, const SamplerOptions& options) {
  for (std::size_t w = 0; w < writers; ++w) {
    writers_.push_back(replay_.writer({.timeout = std::chrono::seconds(10)}));
  }
  sampler_.emplace(replay_.sampler(options));
}

void RandomRun::append_step(Writer& writer, End end) {
  if (!writer.in_episode()) {
    writer.begin_episode();
    writer.now(id_) = next_id_++;
  }
  writer.now(reward_) = static_cast<float>(rng_.below(1000));
  writer.next(id_) = next_id_++;
  std::vector<float> priorities(writer.completing(end));
  std::generate(priorities.begin(), priorities.end(),
                [&] { return static_cast<float>(rng_.unit()); });
  ASSERT_EQ(writer.commit(end, priorities), CommitStatus::Committed);
}

void RandomRun::draw_batch(std::vector<RecordedBatch>* batches) {
  const SampleResult batch = sampler_->sample(kBatch, {.draws = draws_, .timeout = {}});
  if (!batch) {
    return;
  }
  keys_ = to_vector(batch->keys());
  if (batches != nullptr) {
    RecordedBatch noted{to_vector(batch->now(id_)),      {},
                        to_vector(batch->episode_ids()), to_vector(batch->positions()),
                        to_vector(batch->lengths()),     to_vector(batch->probabilities()),
                        to_vector(batch->weights()),     to_vector(batch->now(reward_)),
                        to_vector(batch->next(id_))};
    for (const ItemKey key : keys_) {
      noted.slots.push_back(key.slot());
    }
    batches->push_back(std::move(noted));
  }
  std::vector<float> priorities(kBatch);
  std::generate(priorities.begin(), priorities.end(),
                [&] { return static_cast<float>(rng_.unit()); });
  replay_.update_priorities(keys_, priorities);
}

void RandomRun::run_steps(std::size_t count, std::vector<RecordedBatch>* batches) {
  for (std::size_t i = 0; i < count; ++i) {
    Writer& writer = writers_[rng_.below(writers_.size())];
    const bool ends = rng_.chance(kEndShare);
    append_step(writer, !ends              ? End::Continue
                        : rng_.chance(0.5) ? End::Terminated
                                           : End::Truncated);
    if (testing::Test::HasFatalFailure()) {
      // Each further commit would wait for its timeout, because the limiter holds the writer.
      return;
    }
    if (rng_.chance(kBatchesPerStep)) {
      draw_batch(batches);
    }
  }
}

void RandomRun::end_episodes() {
  for (Writer& writer : writers_) {
    if (writer.in_episode()) {
      append_step(writer, End::Truncated);
    }
  }
}

SaveResult RandomRun::save(const std::filesystem::path& directory, SaveOptions options) {
  options.samplers = {&*sampler_};
  return replay_.save(directory, options);
}

}  // namespace reprise::test
