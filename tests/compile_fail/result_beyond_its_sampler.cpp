#include <reprise/replay_buffer.hpp>

// A batch lies in the memory of its sampler, so the sampler must not be a temporary.
std::size_t size(reprise::ReplayBuffer& replay) {
#ifdef WITH_MISTAKE
  const auto batch = replay.sampler().sample(32);
#else
  auto sampler = replay.sampler();
  const auto batch = sampler.sample(32);
#endif
  return batch->size();
}
