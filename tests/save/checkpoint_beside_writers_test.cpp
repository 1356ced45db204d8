#include "../record/memory_file_system.hpp"
#include "save/save.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/wrapped_selector.hpp"
#include "testing/test.hpp"

/// Tests of saves during which writers go from one tiny chunk to the next, in long episodes.
namespace reprise::test {
namespace {

constexpr std::uint32_t kNStep = 3;

/// A shard selector that calls `call` once, after items were inserted.
class CallOnInsert final : public WrappedSelector {
 public:
  CallOnInsert(std::unique_ptr<ShardSelector> inner, std::function<void()>& call)
      : WrappedSelector(std::move(inner)), call_(call) {}
  void insert(const ItemRun& run, const SelectorSummary& others) noexcept override {
    WrappedSelector::insert(run, others);
    if (call_) {
      std::exchange(call_, nullptr)();
    }
  }

 private:
  std::function<void()>& call_;
};

/// Options for buffers in which nothing is evicted.
Options options_with(Selector selector) {
  return SmallOptions{.capacity_steps = 20'000,
                      .window = Transitions{.n_step = kNStep, .frame_stack = 2},
                      .selectors = {std::move(selector)},
                      .max_writers = 4,
                      .chunk_steps = 10,
                      .shards = 2};
}

/// The number of a writer's first step. All steps of a writer are in one episode.
constexpr std::uint64_t first_number_of(std::uint64_t writer) {
  return writer << 32U;
}

/// Loads the checkpoint. It must have the `committed[writer]` steps that each writer had committed
/// before the save, except the last kNStep - 1, whose windows were incomplete. No step may be there
/// twice, and each must have its position in the episode.
void expect_each_step_once(MemoryFileSystem& files, ReplayBuffer& like,
                           const std::vector<std::uint64_t>& committed) {
  NumberedBuffer loaded;
  core_of(loaded.replay) = save::load(files, kDirectory, {}, core_of(like).get()).core;
  const std::size_t items = loaded.replay.size();
  ASSERT_EQ(items, loaded.replay.stats().items);
  std::map<std::uint64_t, ItemKey> key_of;
  Sampler sampler = loaded.replay.selector(1).sampler({.parallel_gather_bytes = kNoParallelGather});
  // With this many stratified draws, every item is drawn at least once.
  const SampleResult batch = sampler.sample(std::max<std::size_t>(1, 4 * items), kNoWait);
  ASSERT_EQ(static_cast<bool>(batch), items != 0) << batch.status().message();
  for (std::size_t i = 0; batch && i < batch->size(); ++i) {
    const std::uint64_t number = batch->now(loaded.id)[2 * i + 1];
    const auto [at, fresh] = key_of.emplace(number, batch->keys()[i]);
    ASSERT_EQ(at->second, batch->keys()[i]) << "step " << number << " is there twice";
    if (fresh) {
      ASSERT_EQ(batch->positions()[i], number % first_number_of(1));
      ASSERT_EQ(batch->next(loaded.id)[2 * i + 1], number + batch->lengths()[i]);
      ASSERT_EQ(batch->now(loaded.action)[i], number);
    }
  }
  ASSERT_EQ(key_of.size(), items);
  for (std::size_t writer = 0; writer < committed.size(); ++writer) {
    for (std::uint64_t step = 0; step + kNStep <= committed[writer]; ++step) {
      ASSERT_TRUE(key_of.contains(first_number_of(writer) + step))
          << "step " << step << " of writer " << writer << " of " << committed[writer];
    }
  }
}

/// After the save has ingested the first shard, in which it sees the first writer's chunk, that
/// writer goes on in a chunk of the second shard, which the save then sees too.
TEST(CheckpointBesideWriters, AStepSeenInTwoChunksIsThereOnce) {
  const std::uint64_t seed = 31;
  Rng rng(seed);
  std::function<void()> interruption;
  NumberedBuffer line(
      options_with(Wrapping{kRawProportional, [&](std::unique_ptr<ShardSelector> inner) {
                              return std::make_unique<CallOnInsert>(std::move(inner), interruption);
                            }}));
  std::vector<Writer> writers;
  for (int i = 0; i < 3; ++i) {
    writers.push_back(line.replay.writer());  // The writers have chunks in shards 0, 1 and 0.
  }
  std::vector<std::uint64_t> committed(writers.size());
  const auto go_on = [&](std::size_t writer, std::size_t steps) {
    line.append_many(writers[writer], first_number_of(writer) + committed[writer], steps);
    committed[writer] += steps;
  };
  MemoryFileSystem files;
  files.stop_recording();
  for (std::size_t round = 0; round < 100; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    const std::uint64_t other = rng.chance(0.5) ? 1 : 2;
    const std::uint64_t steps = rng.between(1, 12);
    go_on(0, rng.between(1, 12));
    (void)line.replay.size();  // Ingests every decided item.
    go_on(other, rng.between(1, 5));
    const std::vector<std::uint64_t> before = committed;
    interruption = [&] { std::thread([&] { go_on(0, steps); }).join(); };
    save::save(*core_of(line.replay), files, kDirectory, {}, {});
    interruption = nullptr;
    expect_each_step_once(files, line.replay, before);
    if (HasFatalFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace reprise::test
