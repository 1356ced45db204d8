#include "testing/test.hpp"

namespace reprise::test {
namespace {

using Frames = std::vector<std::uint8_t>;

Frames frames_of(std::span<const std::uint8_t> span) {
  return {span.begin(), span.end()};
}

/// A buffer with one episode of two steps, which has the frames 1, 2 and 3, each of one byte.
struct Episode {
  explicit Episode(const Window& window = Transitions{.n_step = 3, .frame_stack = 2},
                   End end = End::Truncated)
      : replay(schema, {.capacity_steps = 8, .window = window, .selectors = {Fifo{}}}) {
    Writer writer = replay.writer();
    writer.begin_episode();
    writer.now(frame)[0] = 1;
    writer.now(reward) = 0.0F;
    writer.next(frame)[0] = 2;
    writer.commit();
    writer.now(reward) = 0.0F;
    writer.next(frame)[0] = 3;
    writer.commit(end);
  }

  Schema schema;
  Observation<std::uint8_t> frame = schema.observation<std::uint8_t>("frame", {1});
  Reward reward = schema.reward("reward");
  ReplayBuffer replay;
};

TEST(UniqueFrames, AnySamplerFillsABatchOfEitherKind) {
  Episode episode;
  Batch unique = episode.replay.make_batch(2, nullptr, /*unique_frames=*/true);
  Batch whole = episode.replay.make_batch(2);
  auto with = episode.replay.sampler({.unique_frames = true});
  auto without = episode.replay.sampler();
  for (Sampler* const sampler : {&with, &without}) {
    ASSERT_EQ(sampler->sample_into(unique, 0, 2).code, SampleStatus::Code::Ok);
    ASSERT_EQ(sampler->sample_into(whole, 0, 2).code, SampleStatus::Code::Ok);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(frames_of(unique.now_stacks(episode.frame)[i]),
                frames_of(whole.now_stacks(episode.frame)[i]));
      EXPECT_EQ(frames_of(unique.next_stacks(episode.frame)[i]),
                frames_of(whole.next_stacks(episode.frame)[i]));
    }
  }
}

TEST(UniqueFrames, APrefetcherHandsThemOut) {
  Episode episode;
  Sampler ahead = episode.replay.sampler({.unique_frames = true});
  Prefetcher prefetcher(ahead, 2);
  std::jthread runs([&](const std::stop_token& stop) { prefetcher.run(stop); });
  const auto batch = prefetcher.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(frames_of(batch->frames(episode.frame)), (Frames{1, 1, 2, 3, 3, 1, 2, 3, 3, 3}));
  episode.replay.close();
}

TEST(UniqueFrames, ColumnsThatABatchLacksAreRefused) {
  Episode episode;
  auto with = episode.replay.sampler({.unique_frames = true});
  auto without = episode.replay.sampler();
  const auto unique = with.sample(2);
  const auto whole = without.sample(2);
  const AnyField any(episode.frame);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { (void)unique->now(episode.frame); }, [&] { (void)unique->now(any); }}) {
    expect_refusal<std::logic_error>(call, {"Batch::now", "unique frames", "now_stacks"});
  }
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { (void)unique->next(episode.frame); }, [&] { (void)unique->next(any); }}) {
    expect_refusal<std::logic_error>(call, {"Batch::next", "unique frames", "next_stacks"});
  }
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { (void)whole->frames(episode.frame); }, [&] { (void)whole->frames(any); }}) {
    expect_refusal<std::logic_error>(call, {"Batch::frames", "SamplerOptions::unique_frames"});
  }
  const AnyField number(episode.reward);
  expect_refusal([&] { (void)unique->frames(number); },
                 {"Batch::frames", "'reward'", "observations"});
  expect_refusal([&] { (void)unique->now_stacks(number); }, {"'reward'", "observations"});
}

TEST(UniqueFrames, ALengthThatIsTooLargeReadsNothingBeyond) {
  Episode episode;
  auto sampler = episode.replay.sampler({.unique_frames = true});
  const auto batch = sampler.sample(2);
  batch->lengths()[1] = 1'000'000;
  EXPECT_EQ(frames_of(batch->next_stacks(episode.frame)[1]), (Frames{3, 3}));
}

TEST(UniqueFrames, OfSequencesAreTheFramesOfAllStepsOnce) {
  for (const StackStart start : {StackStart::RepeatFirst, StackStart::Zeros}) {
    Episode episode(Sequences{.length = 3, .period = 1, .frame_stack = 3, .stack_start = start});
    auto sampler = episode.replay.sampler({.unique_frames = true});
    const auto batch = sampler.sample(2);
    ASSERT_TRUE(batch);
    const std::uint8_t before = start == StackStart::Zeros ? 0 : 1;
    // The first item has two steps, the second has one, so zeros follow its frames.
    EXPECT_EQ(frames_of(batch->frames(episode.frame)),
              (Frames{before, before, 1, 2, 3, 0, before, 1, 2, 3, 0, 0}));
    EXPECT_EQ(batch->shape(episode.frame), (std::vector<std::size_t>{2, 3, 3, 1}));
    const auto now = batch->now_stacks(episode.frame);
    const auto next = batch->next_stacks(episode.frame);
    EXPECT_EQ(now.size(), 2U);
    EXPECT_EQ(frames_of(now.at(0, 0)), (Frames{before, before, 1}));
    EXPECT_EQ(frames_of(now.at(0, 1)), (Frames{before, 1, 2}));
    EXPECT_EQ(frames_of(next.at(0, 0)), (Frames{before, 1, 2}));
    EXPECT_EQ(frames_of(next.at(0, 1)), (Frames{1, 2, 3}));
    EXPECT_EQ(frames_of(now.at(1, 0)), (Frames{before, 1, 2}));
    EXPECT_EQ(frames_of(now[1]), (Frames{before, 1, 2, 3, 0}));
    EXPECT_EQ(frames_of(next[1]), (Frames{1, 2, 3, 0, 0}));
    EXPECT_EQ(next.at(0, 0).data(), now.at(0, 1).data()) << "nothing is there twice";
  }
}

TEST(UniqueFrames, OfALargeBatchAreThoseOfWholeStacks) {
  // The size is odd, so that frames begin anywhere in a cache line.
  constexpr std::size_t kOddFrame = 1031;
  enum class Kind { Transitions, Sequences, CompressedSequences };
  for (const Kind kind : {Kind::Transitions, Kind::Sequences, Kind::CompressedSequences}) {
    const bool sequences = kind != Kind::Transitions;
    const std::size_t items = sequences ? 500 : 1000;
    Schema schema;
    const auto frame = schema.observation<std::uint8_t>("frame", {kOddFrame});
    if (kind == Kind::CompressedSequences) {
      schema.compress(frame);
    }
    const Window window = sequences ? Window(Sequences{.length = 7, .period = 1, .frame_stack = 3})
                                    : Window(Transitions{.n_step = 2, .frame_stack = 3});
    ReplayBuffer replay(schema,
                        {.capacity_steps = items, .window = window, .selectors = {Uniform{}}});
    Writer writer = replay.writer();
    const auto fill = [&](std::span<std::uint8_t> to, std::size_t number) {
      std::iota(to.begin(), to.end(), static_cast<std::uint8_t>(number * 31));
    };
    for (std::size_t step = 0; step < items; ++step) {
      if (!writer.in_episode()) {
        writer.begin_episode();
        fill(writer.now(frame), step);
      }
      fill(writer.next(frame), step + 1);
      writer.commit(step % 37 == 36 ? End::Truncated : End::Continue);
    }
    auto with = replay.sampler(
        {.seed = 1, .unique_frames = true, .parallel_gather_bytes = kNoParallelGather});
    auto without = replay.sampler({.seed = 1, .parallel_gather_bytes = kNoParallelGather});
    const auto unique = with.sample(items);
    const auto whole = without.sample(items);
    ASSERT_GE(unique->frames(frame).size(), std::size_t{4} << 20U)
        << "large enough for stores that bypass the caches";
    for (std::size_t i = 0; i < items; ++i) {
      const std::size_t steps = sequences ? whole->lengths()[i] : 1;
      for (std::size_t t = 0; t < steps; ++t) {
        ASSERT_TRUE(std::ranges::equal(unique->now_stacks(frame).at(i, t),
                                       whole->now_stacks(frame).at(i, t)));
        ASSERT_TRUE(std::ranges::equal(unique->next_stacks(frame).at(i, t),
                                       whole->next_stacks(frame).at(i, t)));
      }
      const auto beyond = whole->next_stacks(frame)[i].subspan(steps * 3 * kOddFrame);
      ASSERT_TRUE(std::ranges::all_of(beyond, [](std::uint8_t byte) { return byte == 0; }));
    }
  }
}

}  // namespace
}  // namespace reprise::test
