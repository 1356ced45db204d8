#include <reprise/reprise.hpp>

#include <cstdio>
#include <vector>

int main() {
  reprise::Schema schema;
  const auto obs = schema.observation<float>("obs");
  const auto reward = schema.reward("reward");
  reprise::ReplayBuffer replay(schema, {.capacity_steps = 100'000});
  auto writer = replay.writer();
  writer.begin_episode();
  writer.now(obs) = 0.0F;
  for (int t = 0; t < 200; ++t) {
    writer.now(reward) = 1.0F;
    writer.next(obs) = static_cast<float>(t + 1);
    writer.commit(t < 199 ? reprise::End::Continue : reprise::End::Terminated);
  }
  auto sampler = replay.sampler({.seed = 1});
  const auto batch = sampler.sample(32, {.beta = 0.4F});  // It lies in the sampler's memory.
  std::printf("%zu items, next - now is %g\n", batch->size(),
              batch->next(obs)[0] - batch->now(obs)[0]);
  replay.update_priorities(batch->keys(), std::vector<float>(32, 0.5F));
}
