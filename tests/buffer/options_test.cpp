#include "testing/fixtures/not_finite.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

struct BadOption {
  const char* name;
  std::function<void(Options&)> spoil;
  std::vector<std::string_view> words;  ///< What the message must say.
};

void set_window(Options& options, Transitions window) {
  options.window = window;
}
void set_selector(Options& options, Proportional selector) {
  options.selectors = {selector};
}
void set_queue(Options& options, Queue queue) {
  options.rate_limiter = queue;
  options.max_times_sampled = 1;
}
void set_limiter(Options& options, RateLimiter limiter) {
  options.rate_limiter = limiter;
}

/// One bad option for each function that checks options. The tests of each function have more.
std::vector<BadOption> bad_options() {
  return {
      {"CapacityZero", [](Options& o) { o.capacity_steps = 0; }, {"capacity_steps", "0"}},
      {"CapacityBelowASequence",
       [](Options& o) {
         o.capacity_steps = 69;
         o.window = Sequences{.length = 50, .period = 1, .burn_in = 20};
       },
       {"capacity_steps is 69; allowed: at least 70", "burn_in + length = 70 and period = 1,"}},
      {"CapacityBelowAPeriod",
       [](Options& o) {
         o.capacity_steps = 69;
         o.window = Sequences{.length = 1, .period = 70};
       },
       {"capacity_steps is 69; allowed: at least 70", "burn_in + length = 1 and period = 70,"}},
      {"DiscountNaN", [](Options& o) { set_window(o, {.discount = kNaN}); }, {"discount", "nan"}},
      {"StackStartUnknown",
       [](Options& o) { set_window(o, {.stack_start = static_cast<StackStart>(2)}); },
       {"Transitions::stack_start", "2", "repeat_first, zeros"}},
      {"SequenceEndUnknown",
       [](Options& o) { o.window = Sequences{.length = 2, .end = static_cast<SequenceEnd>(4)}; },
       {"Sequences::end", "4", "zero_pad, drop, overlap"}},
      {"InitialUnknown",
       [](Options& o) { o.selectors = {MaxHeap{.initial = static_cast<InitialPriority>(4)}}; },
       {"MaxHeap::initial", "4", "highest_seen, constant"}},
      {"MinHeapWithoutAMaximum",
       [](Options& o) { o.selectors = {MinHeap{.initial = InitialPriority::MaximumInBuffer}}; },
       {"MinHeap::initial is maximum_in_buffer", "allowed: highest_seen, constant, from_caller"}},
      {"NoSelector", [](Options& o) { o.selectors.clear(); }, {"selectors"}},
      {"AlphaNaN", [](Options& o) { set_selector(o, {.alpha = kNaN}); }, {"alpha", "nan"}},
      {"SecondSelectorIsCheckedToo",
       [](Options& o) {
         o.selectors = {Uniform{}, Proportional{.alpha = -1.0F}};
       },
       {"alpha", "-1"}},
      {"RemoverOfUnknownSelector",
       [](Options& o) { o.remover = LowestPriority{.selector = 1}; },
       {"LowestPriority::selector", "is 1", "0 to 0"}},
      {"RemoverWithoutCandidates",
       [](Options& o) { o.remover = LeastRecentlySampled{.candidates = 0}; },
       {"LeastRecentlySampled::candidates", "0", "1 to 256"}},
      {"MinSizeZero", [](Options& o) { set_limiter(o, MinSize{0}); }, {"0"}},
      {"ErrorBufferNaN",
       [](Options& o) { set_limiter(o, SampleToInsertRatio{.error_buffer = std::nan("")}); },
       {"error_buffer", "nan"}},
      {"QueueOfNothing", [](Options& o) { set_queue(o, Queue{0}); }, {"Queue::size", "0", "64"}},
      {"QueueThatNothingLeaves",
       [](Options& o) { set_limiter(o, Queue{8}); },
       {"max_times_sampled is 0, with a Queue as rate_limiter", "at least 1"}},
      {"NoWriters", [](Options& o) { o.max_writers = 0; }, {"max_writers", "0"}},
      {"ChunkSmallerThanAWindow",
       [](Options& o) {
         set_window(o, {.n_step = 5, .frame_stack = 4});
         o.chunk_steps = 8;
       },
       {"chunk_steps", "8", "9", "n_step", "frame_stack"}},
      {"TagTooLarge", [](Options& o) { o.key_tag = 4096; }, {"key_tag", "4096"}},
  };
}

class BadOptions : public testing::TestWithParam<BadOption> {};

TEST_P(BadOptions, AreRefusedByNameAndValue) {
  Schema schema;
  schema.observation<float>("state", {4});
  Options options = SmallOptions{};
  GetParam().spoil(options);
  try {
    const ReplayBuffer replay(schema, options);
    FAIL() << "was not refused";
  } catch (const std::invalid_argument& error) {
    for (const std::string_view word : GetParam().words) {
      EXPECT_NE(std::string_view(error.what()).find(word), std::string_view::npos)
          << "the message does not say \"" << word << "\": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, BadOptions, testing::ValuesIn(bad_options()),
                         [](const auto& bad) { return std::string(bad.param.name); });

TEST(GoodOptions, AtTheEdgesOfTheirRangesAreAccepted) {
  Schema schema;
  schema.observation<float>("state", {4});
  const auto accepts = [&](const std::function<void(Options&)>& change) {
    Options options = SmallOptions{};
    change(options);
    EXPECT_NO_THROW(ReplayBuffer(schema, options));
  };
  accepts([](Options& o) { set_window(o, {.discount = 0.0F}); });
  accepts([](Options& o) { set_window(o, {.discount = 1.0F}); });
  accepts([](Options& o) { set_selector(o, {.alpha = 0.0F, .epsilon = 0.0F}); });
  accepts([](Options& o) { set_selector(o, {.alpha = 8.0F}); });
  accepts([](Options& o) {
    o.capacity_steps = 70;
    o.window = Sequences{.length = 50, .period = 70, .burn_in = 20};
    o.chunk_steps = 0;
  });
  accepts([](Options& o) { set_limiter(o, MinSize{64}); });
  accepts([](Options& o) { set_queue(o, Queue{1}); });
  accepts([](Options& o) { set_queue(o, Queue{64}); });
  accepts([](Options& o) { set_limiter(o, Unlimited{}); });
  accepts([](Options& o) { o.key_tag = 0; });
  accepts([](Options& o) { o.key_tag = 4095; });
  accepts([](Options& o) { o.shards = 64; });
  accepts([](Options& o) { o.max_writers = 1; });
  accepts([](Options& o) { o.chunk_steps = 2; });
  accepts([](Options& o) {
    o.capacity_steps = 1;
    o.rate_limiter = MinSize{1};
    o.chunk_steps = 0;
  });
  accepts([](Options& o) {
    set_window(o, {.n_step = 65535, .frame_stack = 65535});
    o.chunk_steps = 0;
  });
}

TEST(GoodOptions, AreReportedWithEveryDefaultFilledIn) {
  Schema schema;
  schema.observation<float>("state", {4});
  for (const std::size_t capacity : {1UL, 100UL, 4095UL, 4096UL, 1000000UL}) {
    SCOPED_TRACE(capacity);
    const ReplayBuffer replay(
        schema,
        Options{.capacity_steps = capacity, .window = Transitions{.n_step = 3, .frame_stack = 2}});
    const Options& options = replay.options();
    EXPECT_EQ(options.capacity_steps, capacity);
    EXPECT_EQ(options.max_writers, 256U);
    EXPECT_EQ(options.shards, capacity < 4096 ? 1U : 4U);
    EXPECT_GE(options.chunk_steps, 5U) << "a window fits";
    EXPECT_LE(options.chunk_steps, 2048U);
    EXPECT_TRUE(options.key_tag.has_value());
    EXPECT_EQ(std::get<Transitions>(options.window), (Transitions{.n_step = 3, .frame_stack = 2}));
    ASSERT_NE(options.selectors.at(0).target<Proportional>(), nullptr);
    EXPECT_EQ(*options.selectors.at(0).target<Proportional>(), Proportional{});
    EXPECT_TRUE(replay.schema() == schema);
  }
}

TEST(GoodOptions, GivenExplicitlyAreKept) {
  const NumberedBuffer line;
  EXPECT_EQ(line.replay.options().chunk_steps, 8U);
  EXPECT_EQ(line.replay.options().shards, 1U);
  EXPECT_EQ(line.replay.options().max_writers, 8U);
  EXPECT_EQ(line.replay.options().key_tag, 7);
}

}  // namespace
}  // namespace reprise::test
