#include "sampler/sampler_core.hpp"
#include "testing/faults/lock_holder.hpp"
#include "testing/test.hpp"
#include "writer/writer_core.hpp"

/// Tests of writers that get no chunk. The plan of memory has enough chunks for all, so writers get
/// none only while a shard's lock is held all the time, which no call of a user does.
namespace reprise::writer {
namespace {

using namespace std::chrono_literals;
using test::LockHolder;

constexpr std::size_t kCapacity = 10;

/// A buffer of numbered steps: step i has observation i and next observation i + 1.
class NoRoom : public testing::Test {
 protected:
  explicit NoRoom(const Window& window = Transitions{.n_step = 3}, std::size_t chunk_steps = 6)
      : id_(schema_.observation<std::uint64_t>("id")),
        core_(std::make_shared<buffer::BufferCore>(schema_, Options{.capacity_steps = kCapacity,
                                                                    .window = window,
                                                                    .selectors = {Uniform{}},
                                                                    .max_writers = 2,
                                                                    .chunk_steps = chunk_steps,
                                                                    .shards = 1})) {}

  std::unique_ptr<WriterCore> writer(std::chrono::nanoseconds timeout, WaitHook* hook = nullptr) {
    return std::make_unique<WriterCore>(core_, *core_->slots().take(),
                                        WriterOptions{.timeout = timeout, .hook = hook});
  }

  CommitStatus append(WriterCore& writer, std::uint64_t number, End end = End::Continue) {
    if (!writer.in_episode()) {
      writer.begin_episode();
    }
    if (writer.position() == 0) {
      writer.access<detail::RowView::kNow>(id_) = number;
    }
    writer.access<detail::RowView::kNext>(id_) = number + 1;
    writer.check_commit(end, {});
    return writer.commit(end, {});
  }

  /// Appends until a commit finds no chunk for its step. Returns how many steps were committed.
  std::uint64_t append_until_full(WriterCore& writer) {
    std::uint64_t number = 0;
    while (append(writer, number) == CommitStatus::Committed) {
      ++number;
    }
    return number;
  }

  std::size_t size() {
    core_->shards().drain();
    return core_->shards().steps();
  }

  /// The numbers of all items. Checks their windows.
  std::set<std::uint64_t> numbers() {
    core_->shards().drain();
    sampler::SamplerCore sampler(core_, {});
    sampler.own().reserve(256);
    EXPECT_EQ(sampler.sample(sampler.own(), 0, 256, {.timeout = 0ns}).code, SampleStatus::Code::Ok);
    std::set<std::uint64_t> found;
    const Batch& batch = sampler.batch();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      found.insert(batch.now(id_)[i]);
      EXPECT_EQ(batch.next(id_)[i], batch.now(id_)[i] + batch.lengths()[i]);
    }
    return found;
  }

  static std::set<std::uint64_t> between(std::uint64_t first, std::uint64_t last) {
    std::set<std::uint64_t> all;
    for (; first != last; ++first) {
      all.insert(first);
    }
    return all;
  }

  void expect_steps_add_up() {
    const Stats stats = core_->stats();
    EXPECT_EQ(stats.resident_steps + stats.excess_steps + stats.evicted_steps + stats.pending_steps,
              stats.committed_steps);
  }

  Schema schema_;
  ScalarObservation<std::uint64_t> id_;
  std::shared_ptr<buffer::BufferCore> core_;
};

TEST_F(NoRoom, AWriterThatPollsDoesNotWaitToEndAnEpisode) {
  struct Refuse final : WaitHook {
    bool keep_waiting(std::chrono::nanoseconds /*waited*/) noexcept override { return false; }
  } hook;
  const auto writer = std::make_unique<WriterCore>(
      core_, *core_->slots().take(), WriterOptions{.timeout = 0ns, .hook = &hook}, /*polls=*/true);
  std::uint64_t committed = 0;
  {
    LockHolder holder(core_->shards()[0].mutex);
    committed = append_until_full(*writer);
    EXPECT_FALSE(writer->poll_end());
    EXPECT_TRUE(writer->in_episode());
  }
  EXPECT_EQ(core_->shards().writers_for_chunk.stats().waits, 0U);
  EXPECT_TRUE(writer->poll_end());
  EXPECT_FALSE(writer->in_episode());
  EXPECT_EQ(*numbers().rbegin(), committed - 1) << "the last one is an item, as the episode ended";
  expect_steps_add_up();
}

TEST_F(NoRoom, TheCommitThatFillsTheLastChunkIsTakenAndTheNextOnlyOnceThereIsAChunk) {
  auto writer = this->writer(0ns);
  LockHolder holder(core_->shards()[0].mutex);
  const std::uint64_t committed = append_until_full(*writer);
  EXPECT_EQ(core_->slots().committed(), committed);
  EXPECT_EQ(core_->shards().writers_for_chunk.stats().timeouts, 1U)
      << "by the step that was refused";

  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(writer->commit(End::Continue, {}), CommitStatus::TimedOut);
    EXPECT_EQ(core_->slots().committed(), committed);
    EXPECT_EQ(writer->position(), committed);
    EXPECT_TRUE(writer->in_episode());
  }
  EXPECT_EQ(core_->shards().writers_for_chunk.stats().timeouts, 4U);

  holder.release();
  EXPECT_EQ(writer->commit(End::Continue, {}), CommitStatus::Committed);
  std::uint64_t number = committed + 1;
  for (; number < committed + 4; ++number) {
    EXPECT_EQ(append(*writer, number), CommitStatus::Committed);
  }
  EXPECT_EQ(append(*writer, number), CommitStatus::Committed);
  EXPECT_EQ(append(*writer, number + 1, End::Terminated), CommitStatus::Committed);
  EXPECT_EQ(size(), kCapacity);
  EXPECT_EQ(numbers(), between(number + 2 - kCapacity, number + 2)) << "none lost, none twice";
  expect_steps_add_up();
}

/// Ends a wait after it has allowed `left` more looks.
class LimitedLooksHook final : public WaitHook {
 public:
  bool keep_waiting(std::chrono::nanoseconds /*waited*/) noexcept override { return left-- > 0; }
  int left = 0;
};

TEST_F(NoRoom, AHookIsAskedByTheCommitThatNeedsTheChunk) {
  LimitedLooksHook hook;
  auto writer = this->writer(kNoTimeout, &hook);
  LockHolder holder(core_->shards()[0].mutex);
  const std::uint64_t number = append_until_full(*writer);
  EXPECT_EQ(core_->slots().committed(), number);
  EXPECT_EQ(core_->shards().writers_for_chunk.stats().waits, 0U)
      << "commits only try for a chunk until they need it";

  hook.left = 3;
  EXPECT_EQ(writer->commit(End::Continue, {}), CommitStatus::Stopped);
  const WaitStats waits = core_->shards().writers_for_chunk.stats();
  EXPECT_EQ(waits.waits, 1U);
  EXPECT_EQ(waits.stops, 1U);
  EXPECT_EQ(waits.timeouts, 0U);
  EXPECT_GE(waits.longest, 150ms) << "three times 50 ms between calls of the hook";

  holder.release();
  EXPECT_EQ(writer->commit(End::Continue, {}), CommitStatus::Committed);
  EXPECT_EQ(core_->slots().committed(), number + 1);
}

/// When the hook is called for the second time, it makes room and ends the wait all the same.
class ReleasesAndRefusesHook final : public WaitHook {
 public:
  explicit ReleasesAndRefusesHook(LockHolder& holder) : holder_(holder) {}
  bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    if (waited == 0ns) {
      return true;
    }
    holder_.release();
    return false;
  }

 private:
  LockHolder& holder_;
};

TEST_F(NoRoom, AHookThatEndsTheWaitIsObeyedThoughThereIsAChunkByThen) {
  LockHolder holder(core_->shards()[0].mutex);
  ReleasesAndRefusesHook hook(holder);
  auto writer = this->writer(kNoTimeout, &hook);
  std::uint64_t number = 0;
  CommitStatus status = CommitStatus::Committed;
  while (status == CommitStatus::Committed && number < 1000) {
    status = append(*writer, number);
    number += status == CommitStatus::Committed ? 1 : 0;
  }
  EXPECT_EQ(status, CommitStatus::Stopped);
  EXPECT_EQ(core_->slots().committed(), number);
  EXPECT_EQ(core_->shards().writers_for_chunk.stats().stops, 1U);
  EXPECT_EQ(writer->commit(End::Continue, {}), CommitStatus::Committed);
}

TEST_F(NoRoom, AStepThatWasNotTakenIsForgottenWithItsEpisode) {
  auto writer = this->writer(0ns);
  LockHolder holder(core_->shards()[0].mutex);
  const std::uint64_t committed = append_until_full(*writer);
  ASSERT_EQ(append(*writer, committed), CommitStatus::TimedOut);
  holder.release();
  writer->begin_episode();
  EXPECT_EQ(core_->slots().committed(), committed);
  EXPECT_EQ(size(), kCapacity) << "a chunk for the open items is free now";
  EXPECT_EQ(numbers(), between(committed - kCapacity, committed));
  expect_steps_add_up();
}

TEST_F(NoRoom, AWriterDestroyedWithoutAChunkDropsItsOpenItemsAndSaysSo) {
  auto writer = this->writer(0ns);
  LockHolder holder(core_->shards()[0].mutex);
  const std::uint64_t committed = append_until_full(*writer);
  writer.reset();  // The destructor waits a second for a chunk.
  holder.release();
  EXPECT_GE(core_->shards().writers_for_chunk.stats().longest, 1s) << "it does not give up at once";
  EXPECT_EQ(core_->counters.dropped_steps.load(), 2U) << "n_step - 1 items were open";
  EXPECT_EQ(core_->slots().alive(), 0U);
  EXPECT_EQ(size(), kCapacity);
  EXPECT_EQ(numbers(), between(committed - 2 - kCapacity, committed - 2));
  const Stats stats = core_->stats();
  EXPECT_EQ(stats.committed_steps, committed);
  EXPECT_EQ(stats.pending_steps, 0U);
  EXPECT_EQ(stats.evicted_steps, committed - kCapacity);
}

TEST_F(NoRoom, AnEpisodeMayBeginWithoutAChunkAndItsFirstCommitWaitsForOne) {
  auto writer = this->writer(0ns);
  LockHolder holder(core_->shards()[0].mutex);
  const std::uint64_t committed = append_until_full(*writer);
  writer->begin_episode();  // The call waits a second for a chunk, then drops two items.
  EXPECT_EQ(core_->shards().writers_for_chunk.stats().timeouts, 2U)
      << "by a commit and by this call";
  writer->begin_episode();  // The episode before has no steps, so the call does not wait.
  EXPECT_EQ(core_->counters.dropped_steps.load(), 2U);
  EXPECT_EQ(append(*writer, 1000), CommitStatus::TimedOut);
  holder.release();
  EXPECT_EQ(writer->commit(End::Terminated, {}), CommitStatus::Committed);
  EXPECT_EQ(size(), kCapacity);
  EXPECT_EQ(core_->slots().committed(), committed + 1);
  EXPECT_TRUE(numbers().contains(1000));
  expect_steps_add_up();
}

class NoRoomInAStream : public NoRoom {
 protected:
  NoRoomInAStream()
      : NoRoom(Sequences{.length = 3, .period = 1, .end = SequenceEnd::Continue}, 8) {}

  /// How often writers have waited for a chunk.
  [[nodiscard]] std::uint64_t waits() const {
    return core_->shards().writers_for_chunk.stats().waits;
  }
};

TEST_F(NoRoomInAStream, AnEpisodeBeginsAtOnceAndTheStreamGoesOn) {
  auto writer = this->writer(0ns);
  LockHolder holder(core_->shards()[0].mutex);
  const std::uint64_t committed = append_until_full(*writer);
  const std::uint64_t before = waits();
  writer->begin_episode();
  EXPECT_EQ(waits(), before);
  EXPECT_EQ(append(*writer, 1000), CommitStatus::TimedOut);
  holder.release();
  ASSERT_EQ(writer->commit(End::Continue, {}), CommitStatus::Committed);
  EXPECT_EQ(core_->counters.dropped_steps.load(), 0U);
  EXPECT_EQ(size(), kCapacity);
  expect_steps_add_up();
  sampler::SamplerCore sampler(core_, {});
  sampler.own().reserve(256);
  ASSERT_EQ(sampler.sample(sampler.own(), 0, 256, {.timeout = 0ns}).code, SampleStatus::Code::Ok);
  const auto ids = sampler.batch().now(id_);
  const std::array across{committed - 2, committed - 1, std::uint64_t{1000}};
  EXPECT_FALSE(std::ranges::search(ids, across).empty());
}

TEST_F(NoRoomInAStream, AWriterIsDestroyedAtOnceAsNoItemBeginsWithItsOpenSteps) {
  auto writer = this->writer(0ns);
  LockHolder holder(core_->shards()[0].mutex);
  static_cast<void>(append_until_full(*writer));
  const std::uint64_t before = waits();
  writer.reset();
  EXPECT_EQ(waits(), before);
  holder.release();
  EXPECT_EQ(core_->counters.dropped_steps.load(), 2U);
  EXPECT_EQ(size(), kCapacity);
  expect_steps_add_up();
}

TEST_F(NoRoom, CloseEndsTheWaitOfAWriter) {
  auto writer = this->writer(kNoTimeout);
  LockHolder holder(core_->shards()[0].mutex);
  std::uint64_t number = 0;
  std::jthread actor([&] { number = append_until_full(*writer); });
  while (core_->shards().writers_for_chunk.stats().waiting_now == 0) {
    std::this_thread::yield();
  }
  core_->close();
  actor.join();
  EXPECT_EQ(append(*writer, number), CommitStatus::Closed);
  EXPECT_EQ(core_->slots().committed(), number) << "each step answered as committed is";
  holder.release();
  writer.reset();
  expect_steps_add_up();
}

}  // namespace
}  // namespace reprise::writer
