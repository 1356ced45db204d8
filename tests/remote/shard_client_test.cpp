#include <reprise/remote.hpp>

#include "remote/shards.hpp"
#include "testing/faults/child.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

TEST(ShardClient, SeveralBatchesMayBeUnderWayAndFinishInAnyOrder) {
  Shards shards(2);
  shards.append_to_each(10);
  shards.exchange_with_all();
  std::vector<Batch> batches;
  std::vector<ShardClient::Ticket> tickets;
  for (int b = 0; b < 4; ++b) {
    batches.push_back(shards.make_batch(8));
    tickets.push_back(*shards.client->begin(batches.back(), 0, 8));
  }
  const Blob first = shards.client->request(0);
  const ShardClient::Ticket late = *shards.client->begin(batches[0], 0, 8);
  shards.client->drop(tickets[0]);
  const Blob second = shards.client->request(0);
  EXPECT_THROW((void)shards.client->finish(tickets[1]), std::logic_error);
  // Answers may arrive in another order than that of the requests.
  const Blob first_answer = shards.shards[0]->exchange(first.bytes());
  shards.client->answer(0, shards.shards[0]->exchange(second.bytes()).bytes());
  shards.client->answer(0, first_answer.bytes());
  EXPECT_THAT(shards.client->waits_for(late), testing::ElementsAre(1U));
  shards.exchange_with(1);
  for (const std::size_t b : {3U, 1U, 2U}) {
    EXPECT_EQ(shards.client->state(tickets[b]), ShardClient::State::Ready);
    const ShardClient::Origins origins = shards.client->finish(tickets[b]);
    EXPECT_EQ(std::count(origins.shards.begin(), origins.shards.end(), 0U), 4);
    EXPECT_THROW((void)shards.client->state(tickets[b]), std::invalid_argument);
  }
}

TEST(ShardClient, APriorityTooLargeForALaterAlphaHindersNoOtherUpdateAndNoDraw) {
  Options options = shard_options();
  options.selectors = {Proportional{.alpha = 1.0F, .epsilon = 0.0F}};
  Shards shards(1, options);
  shards.append_to_each(2);
  shards.exchange_with(0);
  Batch batch = shards.make_batch(2);
  const auto draw = [&] {
    const auto ticket = shards.client->begin(batch, 0, 2);
    shards.exchange_with(0);
    (void)shards.client->finish(*ticket);
    return batch.keys()[0];
  };
  const ItemKey heavy = draw();
  shards.update(heavy, 1e30F);
  shards.lines[0]->replay.selector().set_alpha(8.0F);
  EXPECT_EQ(draw(), heavy);
  EXPECT_EQ(shards.client->totals(0).applied_updates, 1U);
  EXPECT_GT(shards.client->totals(0).total, 1e38);
  EXPECT_THROW(shards.update(heavy, -1.0F), std::invalid_argument);
}

TEST(ShardClient, RefusesDrawsThatWouldNeedAllShardsAtOnce) {
  Shards shards(2, shard_options());
  Batch batch = shards.make_batch(8);
  for (const Draws draws : {Draws::WithoutReplacement, Draws::Epoch}) {
    EXPECT_THROW((void)shards.client->begin(batch, 0, 8, {.draws = draws}), std::invalid_argument);
  }
}

TEST(ShardClient, RefusesToHaveNoShardsAndUnknownSelectorsAndEmptySchemas) {
  const Schema schema = NumberedBuffer(shard_options()).schema;
  EXPECT_THROW(ShardClient(schema, shard_options(), 0), std::invalid_argument);
  EXPECT_THROW(ShardClient(schema, shard_options(), 1, {.selector = 1}), std::invalid_argument);
  EXPECT_THROW(ShardClient(Schema(), shard_options(), 1), std::invalid_argument);
}

TEST(ShardClient, BatchesOfUniqueFramesHaveTheSameStacksInFewerBytes) {
  Options options = shard_options();
  options.window = Transitions{.n_step = 1, .frame_stack = 3};
  Shards shards(2, options);
  shards.append_to_each(20);
  shards.exchange_with_all();
  const auto answer_bytes = [&](bool unique_frames) {
    Batch batch = shards.make_batch(32, unique_frames);
    const auto ticket = shards.client->begin(batch, 0, 32);
    std::size_t bytes = 0;
    for (std::size_t s = 0; s < 2; ++s) {
      const Blob answer = shards.shards[s]->exchange(shards.client->request(s).bytes());
      bytes += answer.bytes().size();
      shards.client->answer(s, answer.bytes());
    }
    (void)shards.client->finish(*ticket);
    const NumberedBuffer& line = *shards.lines[0];
    for (std::size_t i = 0; i < 32; ++i) {
      const std::uint64_t number = batch.now(line.action)[i];
      const std::uint64_t first = number / Shards::kNumbersPerShard * Shards::kNumbersPerShard;
      const std::uint64_t next = number + batch.lengths()[i];
      for (std::uint64_t back = 0; back < 3; ++back) {
        EXPECT_EQ(batch.now_stacks(line.id)[i][2 - back], number - std::min(back, number - first));
        EXPECT_EQ(batch.next_stacks(line.id)[i][2 - back], next - std::min(back, next - first));
      }
    }
    return bytes;
  };
  const std::size_t whole = answer_bytes(/*unique_frames=*/false);
  EXPECT_LT(answer_bytes(/*unique_frames=*/true), whole);
}

TEST(ShardClient, LeavesOutShardsWithoutWeightAndSaysWhenNoShardIsLeft) {
  Shards shards(2);
  shards.append_to_each(4);
  Batch batch = shards.make_batch(6);
  EXPECT_FALSE(shards.client->begin(batch, 0, 6)) << "no shard has answered yet";
  shards.exchange_with_all();
  const auto ticket = shards.client->begin(batch, 0, 6);
  for (const auto& [number, key] : shards.lines[0]->keys()) {
    shards.lines[0]->update(key, 0.0F);
  }
  shards.exchange_with(0);
  EXPECT_THAT(shards.client->waits_for(*ticket), testing::ElementsAre(1U));
  shards.exchange_with(1);
  for (const std::uint32_t shard : shards.client->finish(*ticket).shards) {
    EXPECT_EQ(shard, 1U);
  }
  EXPECT_EQ(shards.client->reallotted(), 3U);
  const auto none = shards.client->begin(batch, 0, 6);
  shards.client->lose(1);
  EXPECT_EQ(shards.client->state(*none), ShardClient::State::NothingToDraw);
  shards.client->drop(*none);
}

TEST(ShardClient, SaysThatADrawTimedOutIfTheLimiterOfItsShardRefusedIt) {
  Options options = shard_options();
  options.rate_limiter = MinSize{30};
  Shards shards(1, options);
  shards.append_to_each(20);
  shards.exchange_with_all();
  Batch batch = shards.make_batch(6);
  class EndsTheWait final : public WaitHook {
    [[nodiscard]] bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
      return waited.count() == 0;
    }
  } hook;
  const auto state_after = [&](auto&& exchange) {
    const auto ticket = shards.client->begin(batch, 0, 6);
    shards.client->answer(0, exchange(shards.client->request(0, 1h)).bytes());
    const ShardClient::State state = shards.client->state(*ticket);
    shards.client->drop(*ticket);
    return state;
  };
  ReplayShard& shard = *shards.shards[0];
  EXPECT_EQ(state_after([&](const Blob& request) { return shard.serve(request.bytes(), {}); }),
            ShardClient::State::TimedOut)
      << "the thread that serves does not wait";
  EXPECT_EQ(
      state_after([&](const Blob& request) { return shard.exchange(request.bytes(), {}, &hook); }),
      ShardClient::State::TimedOut);
  shards.append_to_each(10);
  EXPECT_EQ(state_after([&](const Blob& request) { return shard.serve(request.bytes(), {}); }),
            ShardClient::State::Ready);
}

TEST(ShardClient, DrawsTheItemsOfALostShardAgainFromOthersUntilTheBatchIsWhole) {
  Shards shards(3);
  shards.append_to_each(4);
  shards.exchange_with_all();
  Batch batch = shards.make_batch(12);
  const auto ticket = shards.client->begin(batch, 0, 12);
  shards.exchange_with(1);
  // The client allots the items of shard 0 to shards 1 and 2; shard 1 is lost before it draws them.
  shards.client->lose(0);
  shards.client->lose(1);
  shards.exchange_with(2);
  const ShardClient::Origins origins = shards.client->finish(*ticket);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(origins.shards[i], 2U);
    EXPECT_EQ(shards.numbers(batch)[i] / Shards::kNumbersPerShard, 2U);
    EXPECT_NEAR(batch.probabilities()[i], 0.25, 1e-12);
  }
}

TEST(ShardClient, RefusesAForkedChild) {
  Shards shards(1);
  shards.append_to_each(8);
  shards.exchange_with(0);
  Batch batch = shards.make_batch(4);
  const auto ticket = shards.client->begin(batch, 0, 4);
  const Blob answer = shards.shards[0]->exchange(shards.client->request(0).bytes());
  const ItemKey key = shards.lines[0]->keys().begin()->second;
  const pid_t maker = ::getpid();
  expect_in_child([&] {
    std::string all;
    const auto refused = [&](const char* what, auto&& call) {
      all += describe_unless_refused<std::logic_error>(what, maker, call);
    };
    refused("begin", [&] { (void)shards.client->begin(batch, 0, 4); });
    refused("request", [&] { (void)shards.client->request(0); });
    refused("answer", [&] { shards.client->answer(0, answer.bytes()); });
    refused("lose", [&] { shards.client->lose(0); });
    refused("state", [&] { (void)shards.client->state(*ticket); });
    refused("waits_for", [&] { (void)shards.client->waits_for(*ticket); });
    refused("finish", [&] { (void)shards.client->finish(*ticket); });
    refused("drop", [&] { shards.client->drop(*ticket); });
    refused("update", [&] { (void)shards.client->update({&key, 1}, {}, {}, {}); });
    shards.client.reset();
    return all;
  });
  shards.client->answer(0, answer.bytes());
  (void)shards.client->finish(*ticket);
}

TEST(ShardClient, RefusesTheAnswerOfAShardThatWasLostMeanwhile) {
  Shards shards(1);
  shards.append(0, 1.0F);
  const Blob answer = shards.shards[0]->exchange(shards.client->request(0).bytes());
  shards.client->lose(0);
  EXPECT_THROW(shards.client->answer(0, answer.bytes()), std::invalid_argument);
  EXPECT_FALSE(shards.client->totals(0).alive);
  shards.exchange_with(0);
  EXPECT_TRUE(shards.client->totals(0).alive);
}

TEST(ShardClient, CountsUpdatesOfALostShardAsStaleAndSendsThemToALoadedOne) {
  Shards shards(2);
  shards.append(0, 1.0F);
  shards.append(0, 1.0F);
  shards.exchange_with_all();
  const auto keys = shards.lines[0]->keys();
  const std::vector<ItemKey> key{keys.begin()->second};
  const std::vector<std::uint32_t> shard_numbers{0};
  const std::vector<float> priority{3.0F};
  const std::vector<std::uint64_t> before{shards.shards[0]->incarnation()};
  const auto update = [&] { return shards.client->update(key, shard_numbers, before, priority); };
  for (const float bad : {-1.0F, std::numeric_limits<float>::infinity()}) {
    EXPECT_THROW(shards.client->update(key, shard_numbers, before, {&bad, 1}),
                 std::invalid_argument);
  }
  EXPECT_EQ(update(), 0U);
  shards.client->lose(0);
  EXPECT_EQ(shards.client->totals(0).items, 0U);
  EXPECT_EQ(shards.client->stale_updates(), 1U) << "the queued update";
  // The shard restarts with its steps, as from a checkpoint, and with the same key tag. The client
  // does not know yet, so it queues updates with the old incarnation, and the new one applies them.
  shards.shards[0] = std::make_unique<ReplayShard>(shards.lines[0]->replay, 9);
  EXPECT_EQ(update(), 0U);
  shards.exchange_with(0);
  EXPECT_EQ(shards.client->totals(0).applied_updates, 1U);
  EXPECT_EQ(update(), 0U);
  shards.exchange_with(0);
  EXPECT_EQ(shards.client->totals(0).applied_updates, 2U);
  EXPECT_NEAR(shards.client->totals(0).total, 4.0, 1e-6);
  // The shard restarts as another buffer, with another tag.
  Options options = shard_options();
  options.key_tag = 8;
  shards.lines[0] = std::make_unique<NumberedBuffer>(options);
  shards.shards[0] = std::make_unique<ReplayShard>(shards.lines[0]->replay, 10);
  // The client does not know yet, so its request for the old incarnation is refused. Then it sends
  // the update to the new buffer, which finds the key stale.
  EXPECT_EQ(update(), 0U);
  const Blob refused = shards.shards[0]->exchange(shards.client->request(0).bytes());
  EXPECT_FALSE(state_of(refused.bytes()).done);
  EXPECT_THROW(shards.client->answer(0, refused.bytes()), std::invalid_argument);
  shards.client->lose(0, /*restarted=*/true);
  shards.exchange_with(0);
  EXPECT_EQ(shards.client->totals(0).stale_updates, 1U);
  EXPECT_EQ(shards.client->totals(0).applied_updates, 0U);
  EXPECT_EQ(update(), 1U);
  EXPECT_EQ(shards.client->stale_updates(), 2U);
}

TEST(ShardClient, SendsUpdatesToAShardThatHasNeverAnswered) {
  Shards shards(2);
  shards.append(0, 1.0F);
  const ItemKey key = shards.lines[0]->keys().begin()->second;
  EXPECT_EQ(shards.update(key, 3.0F), 0U);
  shards.exchange_with(0);
  EXPECT_NEAR(shards.client->totals(0).total, 3.0, 1e-6);
}

TEST(ShardClient, CountsUpdatesUnderWayToALostShardAsStale) {
  Shards shards(2);
  for (int i = 0; i < 3; ++i) {
    shards.append(0, 1.0F);
  }
  shards.exchange_with_all();
  const auto keys = shards.lines[0]->keys();
  std::vector<ItemKey> key_list;
  std::ranges::transform(keys, std::back_inserter(key_list),
                         [](const auto& numbered) { return numbered.second; });
  const std::vector<std::uint32_t> shard_numbers(3, 0U);
  const std::vector<std::uint64_t> incarnations(3, shards.shards[0]->incarnation());
  const std::vector<float> priorities(3, 2.0F);
  EXPECT_EQ(shards.client->update(key_list, shard_numbers, incarnations, priorities), 0U);
  (void)shards.client->request(0);
  (void)shards.client->request(0);  // This request has no draws.
  EXPECT_EQ(shards.client->stale_updates(), 0U);
  shards.client->lose(0);
  EXPECT_EQ(shards.client->stale_updates(), 3U);
  shards.client->lose(0);
  EXPECT_EQ(shards.client->stale_updates(), 3U) << "each update counts once";
}

TEST(ShardClient, SendsUpdatesUnderWayToTheNextIncarnationOfARestartedShard) {
  Shards shards(1);
  shards.append(0, 1.0F);
  shards.exchange_with(0);
  const ItemKey key = shards.lines[0]->keys().begin()->second;
  // Two of the updates are in requests, and one is queued.
  for (const float priority : {3.0F, 5.0F, 7.0F}) {
    EXPECT_EQ(shards.update(key, priority), 0U);
    if (priority < 7.0F) {
      (void)shards.client->request(0);
    }
  }
  shards.client->lose(0, /*restarted=*/true);
  EXPECT_FALSE(shards.client->totals(0).alive);
  shards.shards[0] = std::make_unique<ReplayShard>(shards.lines[0]->replay, 9);
  shards.exchange_with(0);
  EXPECT_EQ(shards.client->stale_updates(), 0U);
  EXPECT_NEAR(shards.client->totals(0).total, 7.0, 1e-6) << "the last update counts";
}

TEST(ShardClient, AllotsNoItemsToAShardThatWasLostAfterItHadAnswered) {
  Shards shards(3);
  shards.append_to_each(4);
  shards.exchange_with_all();
  Batch batch = shards.make_batch(12);
  const auto ticket = shards.client->begin(batch, 0, 12);
  shards.exchange_with(1);
  shards.client->lose(1);  // The batch has got this shard's items already.
  EXPECT_EQ(shards.client->reallotted(), 0U);
  shards.client->lose(0);  // The client would have to allot shard 0's items to shards 1 and 2.
  EXPECT_THAT(shards.client->waits_for(*ticket), testing::ElementsAre(2U));
  shards.exchange_with(2);
  const ShardClient::Origins origins = shards.client->finish(*ticket);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(origins.shards[i], 2U);
    EXPECT_NEAR(batch.probabilities()[i], 0.25, 1e-12);
  }
}

TEST(ReplayShard, CountsKeysBeyondItsSlotsAsStale) {
  Shards shards(1);
  shards.append(0, 1.0F);
  shards.exchange_with(0);
  const ItemKey key = shards.lines[0]->keys().begin()->second;
  const auto update = [&](ItemKey updated) {
    EXPECT_EQ(shards.update(updated, 3.0F), 0U);
    shards.exchange_with(0);
    return shards.client->totals(0).stale_updates;
  };
  // Keys as of another buffer, which has the same tag and more slots.
  EXPECT_EQ(update(ItemKey::make(0xFFFFFFF0U, key.generation(), key.tag())), 1U);
  EXPECT_EQ(update(ItemKey::make(1U << 20U, key.generation(), key.tag())), 2U);
  EXPECT_EQ(update(key), 2U);
  EXPECT_EQ(shards.client->totals(0).applied_updates, 1U);
  EXPECT_NEAR(shards.client->totals(0).total, 3.0, 1e-6);
}

}  // namespace
}  // namespace reprise::test
