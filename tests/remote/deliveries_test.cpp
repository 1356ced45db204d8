#include <reprise/remote.hpp>

#include "remote/blobs.hpp"
#include "remote/shards.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

using Kind = ShipmentOutcome::Kind;

bool same(const Blob& a, const Blob& b) {
  return std::ranges::equal(a.bytes(), b.bytes());
}

TEST(Exchange, OfARepeatedRequestGivesTheKeptAnswerUntilTheClientHasIt) {
  Shards shards(1);
  shards.append_to_each(8);
  shards.exchange_with_all();
  ReplayShard& shard = *shards.shards[0];
  Batch batch = shards.make_batch(4);
  const auto ticket = shards.client->begin(batch, 0, 4);
  const ItemKey key = shards.lines[0]->keys().begin()->second;
  EXPECT_EQ(shards.update(key, 2.0F), 0U);
  const Blob request = shards.client->request(0);
  const Blob answer = shard.exchange(request.bytes());
  const Stats before = shards.lines[0]->replay.stats();
  EXPECT_EQ(before.applied_updates, 1U);
  EXPECT_TRUE(same(shard.serve(request.bytes(), {}), answer))
      << "the answer is the same by `serve`";
  EXPECT_EQ(shards.lines[0]->replay.stats().applied_updates, 1U);
  EXPECT_EQ(shards.lines[0]->replay.stats().sampled_items, before.sampled_items);
  shards.client->answer(0, answer.bytes());
  (void)shards.client->finish(*ticket);
  shards.exchange_with(0);  // This request confirms that the client has the answer.
  EXPECT_FALSE(state_of(shard.exchange(request.bytes()).bytes()).done);
  EXPECT_EQ(shards.lines[0]->replay.stats().applied_updates, 1U);
}

TEST(Exchange, KeepsAnAnswerUntilTheClientHasItAlsoIfLaterOnesHaveArrived) {
  Shards shards(1);
  shards.append_to_each(8);
  const Blob first = shards.client->request(0);
  const Blob second = shards.client->request(0);
  const Blob answer = shards.shards[0]->exchange(first.bytes());
  shards.client->answer(0, shards.shards[0]->exchange(second.bytes()).bytes());
  shards.exchange_with(0);
  EXPECT_TRUE(same(shards.shards[0]->exchange(first.bytes()), answer));
}

TEST(Exchange, ForgetsAnAnswerThatTheClientHasAlsoIfAnEarlierOneIsMissing) {
  Shards shards(1);
  shards.append_to_each(8);
  const Blob lost = shards.client->request(0);
  const Blob second = shards.client->request(0);
  shards.client->answer(0, shards.shards[0]->exchange(second.bytes()).bytes());
  shards.exchange_with(0);
  EXPECT_FALSE(state_of(shards.shards[0]->exchange(second.bytes()).bytes()).done);
  shards.client->answer(0, shards.shards[0]->exchange(lost.bytes()).bytes());
}

TEST(Exchange, IsRefusedByAnotherIncarnationOfTheShardAndByAClosedBuffer) {
  Shards shards(1);
  shards.append_to_each(8);
  shards.exchange_with_all();
  const Blob request = shards.client->request(0);
  NumberedBuffer& line = *shards.lines[0];
  ReplayShard other(line.replay, 0, 99);
  const ShardState refused = state_of(other.exchange(request.bytes()).bytes());
  EXPECT_FALSE(refused.done || refused.closed);
  EXPECT_EQ(refused.incarnation, 99U);
  EXPECT_EQ(refused.committed, line.replay.stats().committed_steps);
  line.replay.close();
  const ShardState closed = state_of(shards.shards[0]->exchange(request.bytes()).bytes());
  EXPECT_TRUE(closed.closed && !closed.done);
}

TEST(Exchange, WritesItsAnswerIntoMemoryOfTheCallersAllocator) {
  Shards shards(1);
  shards.append_to_each(8);
  std::size_t allocated = 0;
  const BlobAllocator allocate = [&](std::size_t size) {
    allocated = size;
    Blob blob(size);
    std::ranges::fill(blob.bytes(), std::byte{0xff});  // The memory may hold an earlier answer.
    return blob;
  };
  const Blob answer = shards.shards[0]->serve(shards.client->request(0).bytes(), allocate);
  EXPECT_EQ(allocated, answer.bytes().size());
  shards.client->answer(0, answer.bytes());
  EXPECT_TRUE(shards.client->totals(0).alive);
}

TEST(Exchange, ForgetsClientsThatHaveBeenSilentForLong) {
  Shards shards(1);
  shards.append_to_each(8);
  NumberedBuffer& line = *shards.lines[0];
  ReplayShard shard(line.replay, 0, std::nullopt, {.forgotten = 0ns});
  (void)shards.update(line.keys().begin()->second, 2.0F);
  const Blob request = shards.client->request(0);
  (void)shard.exchange(request.bytes());
  EXPECT_EQ(line.replay.stats().applied_updates, 1U);
  ShardClient other(line.schema, line.replay.options(), 1);
  yield_while([&] {
    (void)shard.exchange(other.request(0).bytes());
    (void)shard.exchange(request.bytes());
    // Once the shard has forgotten the client, it applies the update of the same request again.
    return line.replay.stats().applied_updates == 1;
  });
}

/// Three remote writers that ship to one shard, which has room for two writers.
class Delivered : public testing::Test {
 protected:
  /// A packer with one writer, and a buffer from which it has the schema.
  struct Remote {
    explicit Remote(const Options& options) : line(options), packer(line.schema, options) {}
    Blob ship(std::uint64_t first, std::size_t steps) {
      if (!writer) {
        writer.emplace(packer.writer());
      }
      line.append_many(*writer, first, steps);
      return packer.take();
    }
    NumberedBuffer line;
    StepPacker packer;
    std::optional<Writer> writer;
  };

  static Options options() {
    Options options = shard_options();
    options.max_writers = 2;
    return options;
  }
  static constexpr std::uint64_t kProcess = 7;

  /// Delivers shipments to the shard, which takes at most `max_shipments` of them.
  std::vector<ShipmentOutcome> take(std::vector<ShipmentOf> all, std::uint64_t process = kProcess,
                                    std::size_t max_shipments = ~std::size_t{0}) {
    const Blob answer = shard.append_all(shipments_of(process, 0, all).bytes(), 0ns, max_shipments);
    EXPECT_TRUE(state_of(answer.bytes()).done);
    EXPECT_EQ(state_of(answer.bytes()).committed, committed());
    return outcomes_of(answer.bytes());
  }
  static std::vector<Kind> kinds(const std::vector<ShipmentOutcome>& outcomes) {
    std::vector<Kind> kinds;
    for (const ShipmentOutcome& outcome : outcomes) {
      kinds.push_back(outcome.kind);
    }
    return kinds;
  }
  [[nodiscard]] std::uint64_t committed() const { return line.replay.stats().committed_steps; }

  NumberedBuffer line{options()};
  ReplayShard shard{line.replay, 0, 5};
  std::vector<std::unique_ptr<Remote>> remotes = [] {
    std::vector<std::unique_ptr<Remote>> three;
    for (int i = 0; i < 3; ++i) {
      three.push_back(std::make_unique<Remote>(options()));
    }
    return three;
  }();
};

TEST_F(Delivered, ShipmentsOfSeveralWritersInOneCallAreAppendedOnce) {
  const Blob a = remotes[0]->ship(0, 5);
  const Blob b = remotes[1]->ship(100, 4);
  const Blob c = remotes[0]->ship(5, 3);
  const std::vector<ShipmentOf> all{{remotes[0]->packer.writer_id(), a.bytes()},
                                    {remotes[1]->packer.writer_id(), b.bytes()},
                                    {remotes[0]->packer.writer_id(), c.bytes()}};
  EXPECT_EQ(take(all, kProcess, 1).size(), 1U);
  EXPECT_EQ(committed(), 5U);
  std::vector<ShipmentOutcome> outcomes = take(all);
  EXPECT_EQ(kinds(outcomes), std::vector<Kind>(3, Kind::Appended));
  EXPECT_EQ(outcomes[0].steps, 0U);
  EXPECT_EQ(outcomes[1].steps, 4U);
  EXPECT_EQ(outcomes[2].steps, 3U);
  EXPECT_EQ(committed(), 12U);
  EXPECT_EQ(kinds(take(all)), std::vector<Kind>(3, Kind::Appended));
  EXPECT_EQ(committed(), 12U);
  EXPECT_EQ(shard.deliveries().restarted_episodes, 0U);
  EXPECT_EQ(shard.writers(), 2U);
  // An empty shipment closes its writer.
  EXPECT_EQ(kinds(take({{remotes[0]->packer.writer_id(), {}}})), std::vector<Kind>{Kind::Appended});
  EXPECT_EQ(shard.writers(), 1U);
}

TEST(Deliveries, DoNotWaitForAnotherCallThatTheLimiterHolds) {
  Options options = shard_options();
  options.rate_limiter = SampleToInsertRatio{.samples_per_insert = 1.0, .error_buffer = 8.0};
  NumberedBuffer line(options);
  ReplayShard shard(line.replay);
  StepPacker packer(line.schema, options);
  Writer writer = packer.writer();
  line.append_many(writer, 0, 200);
  const Blob steps = packer.take();
  const std::vector<ShipmentOf> shipments{{packer.writer_id(), steps.bytes()}};
  const auto deliver = [&](std::uint64_t process, std::span<const ShipmentOf> all,
                           std::chrono::nanoseconds timeout) {
    return outcomes_of(shard.append_all(shipments_of(process, 0, all).bytes(), timeout).bytes());
  };
  std::jthread waiting(
      [&] { EXPECT_EQ(deliver(1, shipments, kNoTimeout).at(0).kind, Kind::Closed); });
  yield_while([&] { return line.replay.stats().writers_for_limiter.waiting_now == 0; });
  EXPECT_TRUE(deliver(2, {}, 0ns).empty());
  EXPECT_EQ(deliver(1, shipments, 0ns).at(0).kind, Kind::TimedOut);
  line.replay.close();
}

TEST_F(Delivered, LaterShipmentsOfAWriterAreRefusedWithItsFirstRefusedOne) {
  const Blob a = remotes[0]->ship(0, 5);
  const Blob b = remotes[0]->ship(5, 4);
  const Blob c = remotes[1]->ship(100, 3);
  const std::vector<std::byte> broken(80);
  const std::uint64_t writer = remotes[0]->packer.writer_id();
  const std::vector<ShipmentOutcome> outcomes = take({{writer, a.bytes()},
                                                      {writer, broken},
                                                      {writer, b.bytes()},
                                                      {remotes[1]->packer.writer_id(), c.bytes()}});
  EXPECT_EQ(kinds(outcomes),
            (std::vector<Kind>{Kind::Appended, Kind::Invalid, Kind::Invalid, Kind::Appended}));
  EXPECT_EQ(outcomes[2].reason, outcomes[1].reason);
  EXPECT_EQ(committed(), 8U);
}

TEST_F(Delivered, AShipmentUnderTheIdOfAnotherWriterIsRefused) {
  const Blob a = remotes[0]->ship(0, 5);
  const std::uint64_t writer = remotes[0]->packer.writer_id();
  const std::vector<ShipmentOutcome> outcomes = take({{writer + 1, a.bytes()}});
  EXPECT_EQ(kinds(outcomes), std::vector<Kind>{Kind::Invalid});
  EXPECT_NE(outcomes[0].reason.find(std::to_string(writer + 1)), std::string::npos);
  EXPECT_EQ(committed(), 0U);
  EXPECT_EQ(kinds(take({{writer, a.bytes()}})), std::vector<Kind>{Kind::Appended});
}

TEST_F(Delivered, ShipmentsForAnotherIncarnationAreAllRefused) {
  const Blob a = remotes[0]->ship(0, 5);
  const std::vector<ShipmentOf> shipments{{remotes[0]->packer.writer_id(), a.bytes()}};
  for (const std::uint64_t incarnation : {4U, 6U}) {
    const Blob answer = shard.append_all(shipments_of(kProcess, incarnation, shipments).bytes());
    EXPECT_FALSE(state_of(answer.bytes()).done);
    EXPECT_THROW((void)outcomes_of(answer.bytes()), std::invalid_argument);
  }
  EXPECT_EQ(committed(), 0U);
  EXPECT_TRUE(
      state_of(shard.append_all(shipments_of(kProcess, 5, shipments).bytes()).bytes()).done);
  line.replay.close();
  EXPECT_TRUE(
      state_of(shard.append_all(shipments_of(kProcess, 5, shipments).bytes()).bytes()).closed);
}

TEST_F(Delivered, IncarnationZeroIsRefusedBecauseItMeansAnyIncarnation) {
  EXPECT_THROW(ReplayShard(line.replay, 0, 0), std::invalid_argument);
}

TEST_F(Delivered, DamagedCallsChangeNothing) {
  const Blob a = remotes[0]->ship(0, 5);
  const std::vector<ShipmentOf> shipments{{remotes[0]->packer.writer_id(), a.bytes()}, {9, {}}};
  const Bytes call = copy_of(shipments_of(kProcess, 0, shipments));
  for (std::size_t at = 0; at < call.size(); ++at) {
    Bytes damaged = call;
    damaged[at] ^= std::byte{1};
    EXPECT_THROW((void)shard.serve(damaged, {}), std::invalid_argument) << at;
    damaged = call;
    damaged.resize(at);
    EXPECT_THROW((void)shard.serve(damaged, {}), std::invalid_argument) << at;
    fix_checksum(damaged);
    if (at >= 64) {  // Shorter blobs have no whole header, so their checksum stays wrong.
      EXPECT_THROW((void)shard.serve(damaged, {}), std::invalid_argument) << at;
    }
  }
  EXPECT_EQ(committed(), 0U);
  EXPECT_EQ(kinds(outcomes_of(shard.serve(call, {}).bytes())),
            std::vector<Kind>(2, Kind::Appended));
}

}  // namespace
}  // namespace reprise::test
