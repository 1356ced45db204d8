#include "buffer/update.hpp"
#include "sampler/sampler_core.hpp"
#include "testing/faults/child.hpp"
#include "testing/faults/lock_holder.hpp"
#include "testing/test.hpp"
#include "writer/writer_core.hpp"

namespace reprise::test {
namespace {

/// A buffer with an object of each kind that appends, draws or holds a batch. `writer` is in the
/// middle of an episode; `idle` and `vector_writer` have begun no episode.
struct BufferInUse {
  NumberedBuffer line{SmallOptions{.window = Transitions{.n_step = 3}}};
  std::optional<Writer> writer{line.replay.writer()};
  std::optional<Writer> idle{line.replay.writer()};
  std::optional<VectorWriter> vector_writer{std::in_place, line.replay, std::size_t{2}};
  std::optional<Sampler> sampler{line.replay.sampler()};
  std::optional<Batch> batch{line.replay.make_batch(4)};
  std::optional<Prefetcher> prefetcher{std::in_place, *sampler, std::size_t{4}};
  std::vector<ItemKey> keys;
  const pid_t creator_pid = ::getpid();

  BufferInUse() {
    line.append_many(*writer, 0, 30);
    keys.push_back(line.keys().begin()->second);
  }

  /// Makes every call that may lock, wait or append. Names those that did not refuse a child.
  [[nodiscard]] std::string missing_refusals() {
    std::string all;
    const auto refused = [&](const char* what, auto&& call) {
      all += describe_unless_refused<std::logic_error>(what, creator_pid, call);
    };
    ReplayBuffer& replay = line.replay;
    const std::array<float, 1> priority = {1.0F};
    const std::array<End, 2> ends = {End::Continue, End::Continue};
    refused("commit", [&] { (void)line.append(*writer, 30); });
    refused("begin_episode", [&] { writer->begin_episode(); });
    refused("begin_episode of an idle writer", [&] { idle->begin_episode(); });
    refused("add_transition", [&] {
      (void)writer->add_transition(End::Continue, now(line.id, 1), now(line.action, 1),
                                   now(line.reward, 1.0F), next(line.id, 2));
    });
    refused("VectorWriter::commit", [&] { (void)vector_writer->commit(ends); });
    refused("VectorWriter", [&] { const VectorWriter more(replay, 1); });
    refused("sample", [&] { (void)sampler->sample(4); });
    refused("sample_into", [&] { (void)sampler->sample_into(*batch, 0, 4); });
    refused("update_priorities", [&] { (void)replay.update_priorities(keys, priority); });
    refused("size", [&] { (void)replay.size(); });
    refused("stats", [&] { (void)replay.stats(); });
    refused("writer", [&] { (void)replay.writer(); });
    refused("sampler", [&] { (void)replay.sampler(); });
    refused("Prefetcher", [&] { const Prefetcher more(*sampler, 4); });
    refused("Prefetcher::next", [&] { (void)prefetcher->next(); });
    refused("Prefetcher::run", [&] { prefetcher->run({}); });
    return all;
  }

  /// Closes the buffer and destroys its objects, in the order of the members.
  void tear_down() {
    line.replay.close();
    writer.reset();
    idle.reset();
    vector_writer.reset();
    sampler.reset();
    batch.reset();
    prefetcher.reset();
    const ReplayBuffer gone = std::move(line.replay);
  }
};

TEST(Fork, EveryCallInAChildIsRefusedAndNamesTheProcessOfTheBuffer) {
  BufferInUse used;
  expect_in_child([&] { return used.missing_refusals(); });
}

TEST(Fork, AFullPrefetcherIsRefusedInAChildToo) {
  // The prefetcher has no free batch, and no thread of the child will ever free one.
  BufferInUse used;
  constexpr std::size_t kDepth = 2;
  Prefetcher full(*used.sampler, 4, {}, kDepth);
  const std::uint64_t before = used.line.replay.stats().sampled_items;
  {
    std::jthread runner([&](const std::stop_token& stop) { full.run(stop); });
    yield_while([&] { return used.line.replay.stats().sampled_items < before + (kDepth + 1) * 4; });
  }
  expect_in_child([&] {
    return describe_unless_refused<std::logic_error>("run", used.creator_pid,
                                                     [&] { full.run({}); });
  });
}

TEST(Fork, TheParentsBufferStillWorksAfterTheChildsCalls) {
  BufferInUse used;
  expect_in_child([&] {
    const std::string missing_refusals = used.missing_refusals();
    used.tear_down();
    return missing_refusals;
  });
  EXPECT_FALSE(used.line.replay.closed());
  EXPECT_EQ(used.line.append(*used.writer, 30), CommitStatus::Committed);
  EXPECT_EQ(used.line.replay.stats().committed_steps, 31U);
  EXPECT_TRUE(used.sampler->sample(4));
  expect_steps_add_up(used.line.replay);
}

TEST(Fork, ABufferMadeInAChildWorksThereAndNotInTheChildsChild) {
  BufferInUse of_the_parent;
  expect_in_child([] {
    BufferInUse used;
    if (!used.sampler->sample(4) || used.line.append(*used.writer, 30) != CommitStatus::Committed) {
      return std::string("a buffer made after the fork does not work");
    }
    expect_in_child([&] { return used.missing_refusals(); });
    return std::string(testing::Test::HasFailure() ? "its child was not refused" : "");
  });
}

TEST(Fork, NoCallInAChildWaitsForALockThatAThreadOfTheParentHolds) {
  // The only shard is locked while the process forks, so the lock stays held for ever in the child.
  Schema schema;
  const auto state = schema.observation<float>("state");
  auto core = std::make_shared<buffer::BufferCore>(
      schema, SmallOptions{.window = Transitions{.n_step = 3}, .selectors = {Proportional{}}});
  const auto make_writer = [&] {
    return std::make_unique<writer::WriterCore>(core, *core->slots().take(), WriterOptions{});
  };
  auto writer = make_writer();
  auto idle = make_writer();
  writer->begin_episode();
  for (int i = 0; i < 5; ++i) {
    writer->access<detail::RowView::kNow>(state) = 1.0F;
    writer->access<detail::RowView::kNext>(state) = 1.0F;
    writer->check_commit(End::Continue, {});
    ASSERT_EQ(writer->commit(End::Continue, {}), CommitStatus::Committed);
  }
  auto sampler = std::make_unique<sampler::SamplerCore>(core, SamplerOptions{});

  LockHolder holder(core->shards()[0].mutex);
  const pid_t creator_pid = ::getpid();
  expect_in_child([&] {
    std::string all;
    const auto refused = [&](const char* what, auto&& call) {
      all += describe_unless_refused<std::logic_error>(what, creator_pid, call);
    };
    refused("stats", [&] { (void)core->stats(); });
    refused("update", [&] { (void)buffer::update(*core, {}, {}, 0); });
    refused("sample", [&] { sampler->check(sampler->own(), 0, 4, {}); });
    refused("commit", [&] { writer->check_commit(End::Continue, {}); });
    core->close();
    if (core->closed()) {
      all += "close closed the buffer\n";
    }
    writer.reset();
    idle.reset();
    sampler.reset();
    if (core->slots().alive() != 2) {
      all += "a destroyed writer gave back its slot, which takes a lock\n";
    }
    core.reset();
    return all;
  });
  holder.release();
}

TEST(Fork, WhileThreadsUseTheBufferTheChildNeitherHangsNorCrashes) {
  NumberedBuffer line(SmallOptions{.window = Transitions{.n_step = 3}, .shards = 2});
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  start(threads, 2, [&] {
    while (!stop.load(std::memory_order_relaxed)) {
      Writer writer = line.replay.writer();
      line.append_many(writer, 0, 100);
    }
  });
  threads.emplace_back([&] {
    Sampler sampler = line.replay.sampler();
    while (!stop.load(std::memory_order_relaxed)) {
      if (const SampleResult batch = sampler.sample(8, kNoWait)) {
        const std::vector<float> priorities(8, 1.0F);
        line.replay.update_priorities(batch->keys(), priorities);
      }
    }
  });
  Writer writer = line.replay.writer();
  Sampler sampler = line.replay.sampler();
  line.append_many(writer, 0, 5);
  const pid_t creator_pid = ::getpid();
  for (std::size_t i = 0; i < scaled(50, 5); ++i) {
    expect_in_child([&] {
      std::string all;
      all += describe_unless_refused<std::logic_error>("commit", creator_pid,
                                                       [&] { (void)writer.commit(); });
      all += describe_unless_refused<std::logic_error>("sample", creator_pid,
                                                       [&] { (void)sampler.sample(4); });
      all += describe_unless_refused<std::logic_error>("size", creator_pid,
                                                       [&] { (void)line.replay.size(); });
      const Writer gone = std::move(writer);
      const Sampler gone_too = std::move(sampler);
      const ReplayBuffer all_gone = std::move(line.replay);
      return all;
    });
  }
  stop.store(true, std::memory_order_relaxed);
  threads.clear();
  expect_steps_add_up(line.replay);
}

TEST(Fork, EveryCallOfAClosedBufferIsRefusedInAChildToo) {
  BufferInUse used;
  used.line.replay.close();
  expect_in_child([&] { return used.missing_refusals(); });
}

}  // namespace
}  // namespace reprise::test
