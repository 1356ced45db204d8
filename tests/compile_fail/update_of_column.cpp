#include <reprise/replay_buffer.hpp>

#include <array>

// Only mutable columns can be updated.
void write(reprise::ReplayBuffer& replay, reprise::ItemKey key, reprise::Column<float> fixed,
           reprise::MutableColumn<float> latent) {
  const std::array values{1.0F, 2.0F};
#ifdef WITH_MISTAKE
  static_cast<void>(latent);
  replay.update({&key, 1}, fixed, values);
#else
  static_cast<void>(fixed);
  replay.update({&key, 1}, latent, values);
#endif
}
