// Links the installed reprise::device, reprise::process and reprise::remote.
#include <reprise/device_ring.hpp>
#include <reprise/host.hpp>
#include <reprise/remote.hpp>

int main() {
  reprise::Schema schema;
  static_cast<void>(schema.reward("reward"));
  reprise::ReplayBuffer replay(schema, {.capacity_steps = 100});
  const reprise::Host host(replay);
  const reprise::ReplayShard shard(replay);
  static_cast<void>(reprise::cuda_device());
}
