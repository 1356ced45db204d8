// Runs two actors and a learner, saves a checkpoint with the learner's parameters, and loads it.
#include <reprise/reprise.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <stop_token>
#include <thread>

int main(int count, char** arguments) {
  reprise::Schema schema;
  const auto obs = schema.observation<float>("obs", {4});  // A vector of 4 floats.
  const auto action = schema.column<std::int32_t>("action");
  const auto reward = schema.reward("reward");
  const reprise::SampleToInsertRatio ratio{.samples_per_insert = 4.0, .min_size = 500};
  reprise::ReplayBuffer replay(schema, {.capacity_steps = 10'000,
                                        .window = reprise::Transitions{.n_step = 3},
                                        .rate_limiter = ratio});

  const auto act = [&](const std::stop_token& stop) {
    auto writer = replay.writer({.stop = stop});  // Each environment has a writer of its own.
    while (!stop.stop_requested()) {
      if (!writer.in_episode()) {
        writer.begin_episode();
        std::ranges::fill(writer.now(obs), 0.0F);  // The first observation.
      }
      const auto step = static_cast<float>(writer.episode_steps());
      writer.now(action) = 1;
      writer.now(reward) = 0.1F * step;
      std::ranges::fill(writer.next(obs), step + 1.0F);
      writer.commit(step < 99.0F ? reprise::End::Continue : reprise::End::Truncated);
    }
  };

  std::array<float, 4> parameters{};
  {
    const std::jthread first(act);
    const std::jthread second(act);
    auto sampler = replay.sampler({.seed = 1});
    std::array<float, 64> errors{};
    for (int update = 0; update < 200; ++update) {
      const auto batch = sampler.sample(errors.size(), {.timeout = std::chrono::seconds(60)});
      if (!batch) {
        std::printf("no batch: %s\n", batch.status().message().c_str());
        return 1;
      }
      for (std::size_t i = 0; i < errors.size(); ++i) {
        const std::span<const float> now = batch->now(obs).subspan(4 * i, 4);  // Row i of [64, 4].
        errors[i] = batch->returns(reward)[i] - parameters[0] * now[0];
        parameters[0] += 1e-5F * batch->weights()[i] * errors[i] * now[0];
        errors[i] = std::abs(errors[i]);
      }
      replay.update_priorities(batch->keys(), errors);
    }
  }  // Here both threads are stopped and joined; episodes under way end as truncated.

  const char* const directory = count > 1 ? arguments[1] : "tour_checkpoint";
  replay.save(directory, {.attachments = {{"net", std::as_bytes(std::span(parameters))}}});
  const reprise::LoadResult loaded = reprise::ReplayBuffer::load(directory);
  const bool same = loaded.buffer.size() == replay.size();
  std::printf("the load has %s steps and %zu bytes of the learner\n", same ? "all" : "other",
              loaded.attachments.at("net").size());
}
