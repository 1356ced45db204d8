#pragma once

#include <reprise/remote.hpp>

#include "record/checksum.hpp"
#include "testing/library.hpp"
#include "testing/worlds/world.hpp"

namespace reprise::test {

using Bytes = std::vector<std::byte>;

inline Bytes copy_of(const Blob& blob) {
  return {blob.bytes().begin(), blob.bytes().end()};
}

/// Writes the size and the checksum of the blob's present bytes, so that a reader goes on to its
/// other checks.
inline void fix_checksum(Bytes& blob) {
  if (blob.size() < 64) {
    return;
  }
  const std::uint64_t size = blob.size();
  std::memcpy(blob.data() + 32, &size, sizeof(size));
  const std::uint64_t checksum = record::checksum(std::span(blob).subspan(8));
  std::memcpy(blob.data(), &checksum, sizeof(checksum));
}

/// A shard with some steps, and one blob of each kind. The items are sequences with recurrent
/// states, or transitions whose batches have unique frames.
class Blobs {
 public:
  explicit Blobs(bool sequences = true)
      : world({.states = sequences}),
        replay(world.schema(), options(sequences)),
        packer(world.schema(), options(sequences), 5),
        client(world.schema(), options(sequences), 1),
        batch_begun(replay.make_batch(4, nullptr, !sequences)) {
    Writer writer = packer.writer();
    std::vector<float> priorities;
    const auto run = [&](int steps) {
      world.begin(writer);
      for (int i = 0; i < steps; ++i) {
        world.write_step(writer);
        if (sequences) {
          world.write_states(writer);
        }
        const End end = i + 1 == steps ? End::Terminated : End::Continue;
        priorities.assign(writer.completing(end), 0.5F);
        writer.commit(end, priorities);
      }
      return packer.take();
    };
    (void)shard.append(run(9).bytes());
    shipment = copy_of(run(4));
    client.answer(0, shard.exchange(client.request(0).bytes()).bytes());
    Batch batch = replay.make_batch(3);
    const auto ticket = client.begin(batch, 0, 3);
    client.answer(0, shard.exchange(client.request(0).bytes()).bytes());
    const ShardClient::Origins origins = client.finish(*ticket);
    const std::vector<float> raised(3, 2.0F);
    (void)client.update(batch.keys(), origins.shards, origins.incarnations, raised);
    begun = client.begin(batch_begun, 0, 4);
    request = copy_of(client.request(0));
  }

  static Options options(bool sequences) {
    Options made = Options{.capacity_steps = 64};
    if (sequences) {
      made.window = Sequences{.length = 3, .period = 2};
    } else {
      made.window = Transitions{.n_step = 2, .frame_stack = 3};
    }
    made.max_writers = 4;
    made.shards = 1;
    made.chunk_steps = 16;
    made.key_tag = 3;
    return made;
  }

  /// Everything that a refused blob must leave unchanged.
  [[nodiscard]] std::string state() {
    const Stats stats = replay.stats();
    const ShardTotals totals = client.totals(0);
    return std::to_string(stats.committed_steps) + " " + std::to_string(stats.applied_updates) +
           " " + std::to_string(stats.sampled_items) + " " + std::to_string(shard.writers()) + " " +
           std::to_string(totals.total) + " " + std::to_string(client.waits_for(*begun).size());
  }

  World world;
  ReplayBuffer replay;
  StepPacker packer;
  ReplayShard shard{replay, 0, 1234};
  ShardClient client;
  Batch batch_begun;
  std::optional<ShardClient::Ticket> begun;
  Bytes shipment;
  Bytes request;
};

}  // namespace reprise::test
