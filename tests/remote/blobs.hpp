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

/// Corrects the size and the checksum in the header of a changed blob, so that a reader goes on to
/// its other checks. Leaves a blob without a whole `BlobHeader` as it is.
inline void fix_checksum(Bytes& blob) {
  constexpr std::size_t kHeaderBytes = 64;
  constexpr std::size_t kOffsetOfSize = 32;
  if (blob.size() < kHeaderBytes) {
    return;
  }
  const std::uint64_t size = blob.size();
  std::memcpy(blob.data() + kOffsetOfSize, &size, sizeof(size));
  const std::uint64_t checksum = record::checksum(std::span(blob).subspan(sizeof(std::uint64_t)));
  std::memcpy(blob.data(), &checksum, sizeof(checksum));
}

/// A shard with some steps, a client with a draw under way, and two blobs that are not delivered
/// yet: a shipment of an episode, and a request with the draw and updates. The items are sequences
/// with recurrent states, or transitions whose batches have unique frames.
class Blobs {
 public:
  enum class Items { Transitions, Sequences };

  explicit Blobs(Items items = Items::Sequences)
      : world({.states = items == Items::Sequences}),
        replay(world.schema(), options(items)),
        packer(world.schema(), options(items), 5),
        client(world.schema(), options(items), 1),
        batch_under_way(
            replay.make_batch(4, nullptr, /*unique_frames=*/items == Items::Transitions)) {
    Writer writer = packer.writer();
    std::vector<float> priorities;
    const auto pack_episode = [&](int steps) {
      world.begin(writer);
      for (int i = 0; i < steps; ++i) {
        world.write_step(writer);
        if (items == Items::Sequences) {
          world.write_states(writer);
        }
        const End end = i + 1 == steps ? End::Terminated : End::Continue;
        priorities.assign(writer.completing(end), 0.5F);
        writer.commit(end, priorities);
      }
      return packer.take();
    };
    (void)shard.append(pack_episode(9).bytes());
    shipment = copy_of(pack_episode(4));
    client.answer(0, shard.exchange(client.request(0).bytes()).bytes());
    Batch batch = replay.make_batch(3);
    const auto ticket = client.begin(batch, 0, 3);
    client.answer(0, shard.exchange(client.request(0).bytes()).bytes());
    const ShardClient::Origins origins = client.finish(*ticket);
    const std::vector<float> raised(3, 2.0F);
    (void)client.update(batch.keys(), origins.shards, origins.incarnations, raised);
    draw_under_way = client.begin(batch_under_way, 0, 4);
    request = copy_of(client.request(0));
  }

  static Options options(Items items) {
    Options options{.capacity_steps = 64};
    if (items == Items::Sequences) {
      options.window = Sequences{.length = 3, .period = 2};
    } else {
      options.window = Transitions{.n_step = 2, .frame_stack = 3};
    }
    options.max_writers = 4;
    options.shards = 1;
    options.chunk_steps = 16;
    options.key_tag = 3;
    return options;
  }

  /// The counts and totals that a refused blob must leave unchanged, as text.
  [[nodiscard]] std::string state() {
    const Stats stats = replay.stats();
    const ShardTotals totals = client.totals(0);
    return std::to_string(stats.committed_steps) + " " + std::to_string(stats.applied_updates) +
           " " + std::to_string(stats.sampled_items) + " " + std::to_string(shard.writers()) + " " +
           std::to_string(totals.total) + " " +
           std::to_string(client.waits_for(*draw_under_way).size());
  }

  World world;
  ReplayBuffer replay;
  StepPacker packer;
  ReplayShard shard{replay, 0, 1234};
  ShardClient client;
  Batch batch_under_way;
  std::optional<ShardClient::Ticket> draw_under_way;
  Bytes shipment;
  Bytes request;
};

}  // namespace reprise::test
