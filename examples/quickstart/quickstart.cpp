// Learns the values of a random walk (Sutton and Barto, "Reinforcement Learning", example 6.2)
// while an actor thread walks. A walk begins in state 3 and goes one step left or right at random
// until it reaches 0 or 6; reaching 6 gives a reward of 1. The exact value of state s is s / 6.
#include <reprise/reprise.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <thread>

int main() {
  reprise::Schema schema;
  const auto state = schema.observation<std::int32_t>("state");
  const auto reward = schema.reward("reward");
  reprise::ReplayBuffer replay(
      schema, {.capacity_steps = 10'000,
               .window = reprise::Transitions{.n_step = 3, .discount = 1.0F},
               .selectors = {reprise::Proportional{.alpha = 0.6F}},
               .rate_limiter = reprise::SampleToInsertRatio{
                   .samples_per_insert = 4.0, .min_size = 1'000, .error_buffer = 256.0}});

  std::jthread actor([&] {
    std::mt19937 random(1);
    auto writer = replay.writer();
    auto answer = reprise::CommitStatus::Committed;
    while (answer != reprise::CommitStatus::Closed) {
      if (!writer.in_episode()) {
        writer.begin_episode();
        writer.now(state) = 3;
      }
      const std::int32_t to = writer.now(state) + (random() % 2 == 0 ? 1 : -1);
      writer.next(state) = to;
      writer.now(reward) = to == 6 ? 1.0F : 0.0F;
      answer = writer.commit(to % 6 == 0 ? reprise::End::Terminated : reprise::End::Continue);
    }
  });

  float value[7] = {};
  std::array<float, 64> errors{};
  int updates = 0;
  auto sampler = replay.sampler({.seed = 1});
  while (const auto batch = sampler.sample(errors.size(), {.beta = 1.0F})) {
    for (std::size_t i = 0; i < errors.size(); ++i) {
      float& now = value[batch->now(state)[i]];
      const float next = value[batch->next(state)[i]];
      const float error = batch->returns(reward)[i] + batch->discounts()[i] * next - now;
      now += 0.02F * batch->weights()[i] * error;
      errors[i] = std::abs(error);
    }
    replay.update_priorities(batch->keys(), errors);
    if (++updates == 2'000) {
      replay.close();  // Closing the buffer ends both loops.
    }
  }
  for (int s = 1; s < 6; ++s) {
    std::printf("state %d: value %.2f, exactly %.2f\n", s, double{value[s]}, s / 6.0);
  }
}
