#include "testing/test.hpp"
#include "two_lines.hpp"

namespace reprise::test {
namespace {

using Code = SampleStatus::Code;

TEST(MixedSampler, KeepsTheDrawnPartsWhenAnotherPartEndsTheCall) {
  TwoBuffers two;
  NumberedBuffer late(options_of(3));
  MixedSampler all({{two.first.replay, 4}, {late.replay, 2}, {two.second.replay, 3}}, {.seed = 9});
  for (int i = 0; i < 5; ++i) {
    const SampleResult none = all.sample(kNoWait);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.status().code, Code::TimedOut);
    EXPECT_EQ(none.status().batch, 2U);
    EXPECT_EQ(all.waits_for(), 1U);
  }
  EXPECT_EQ(two.first.replay.stats().sampled_items, 4U);
  EXPECT_EQ(two.second.replay.stats().sampled_items, 0U);
  late.append_many(500, 1, 1.0F);
  Sampler first = two.first.replay.sampler({.seed = 9});
  for (int i = 0; i < 3; ++i) {
    const SampleResult batch = require_batch(all.sample(kNoWait));
    ASSERT_EQ(batch->size(), 9U);
    expect_whole_rows(batch, two.first);
    EXPECT_TRUE(std::ranges::equal(batch->keys().first(4), first.sample(4)->keys()));
    EXPECT_EQ(batch->now(late.action)[4], 500U);
    EXPECT_GE(batch->now(late.action)[6], kOther);
  }
}

TEST(MixedSampler, DrawsAPartAgainThatWasDrawnWithAnotherDiscount) {
  TwoBuffers two;
  NumberedBuffer late(options_of(3));
  MixedSampler both({{two.first.replay, 4}, {late.replay, 2}}, {.seed = 9});
  SampleOptions other_discount = kNoWait;
  other_discount.discount = 0.5F;
  ASSERT_FALSE(both.sample(kNoWait));
  ASSERT_FALSE(both.sample(other_discount));
  ASSERT_FALSE(both.sample(other_discount));
  EXPECT_EQ(two.first.replay.stats().sampled_items, 8U);
  late.append_many(500, 1, 1.0F);
  const SampleResult batch = require_batch(both.sample(other_discount));
  EXPECT_EQ(std::ranges::count(batch->discounts(), 0.5F), 6);
  EXPECT_EQ(two.first.replay.stats().sampled_items, 8U) << "the first part was kept";
}

TEST(MixedSampler, DrawsAPartAgainThatWasDrawnWithoutItsRows) {
  TwoBuffers two;
  NumberedBuffer late(options_of(3));
  MixedSampler both({{two.first.replay, 4}, {late.replay, 2}}, {.seed = 9});
  SampleOptions without_rows = kNoWait;
  without_rows.gather = false;
  ASSERT_FALSE(both.sample(without_rows));
  ASSERT_FALSE(both.sample(kNoWait));
  EXPECT_EQ(two.first.replay.stats().sampled_items, 8U);
}

TEST(MixedSampler, DrawsTheSameItemsIntoABatchOfTheCaller) {
  TwoBuffers two;
  for (const bool by_total : {false, true}) {
    const auto make = [&] {
      return by_total ? MixedSampler({two.first.replay, two.second.replay}, 12, {.seed = 5})
                      : MixedSampler({{two.first.replay, 4}, {two.second.replay, 8}}, {.seed = 5});
    };
    MixedSampler both = make();
    MixedSampler same_seed = make();
    Batch batch = two.second.replay.make_batch(14);
    ASSERT_EQ(two.second.replay.sampler().sample_into(batch, 0, 14).code, Code::Ok);
    const std::vector<ItemKey> before(batch.keys().begin(), batch.keys().end());
    for (int i = 0; i < 5; ++i) {
      const SampleStatus status = both.sample_into(batch, {.beta = 1.0F});
      ASSERT_EQ(status.code, Code::Ok);
      EXPECT_EQ(status.batch, 12U);
      const SampleResult own = require_batch(same_seed.sample({.beta = 1.0F}));
      EXPECT_TRUE(std::ranges::equal(batch.keys().first(12), own->keys()));
      EXPECT_TRUE(std::ranges::equal(batch.weights().first(12), own->weights()));
      EXPECT_TRUE(std::ranges::equal(batch.probabilities().first(12), own->probabilities()));
      EXPECT_TRUE(std::ranges::equal(batch.now(two.first.id).first(12), own->now(two.first.id)));
      EXPECT_TRUE(std::ranges::equal(batch.keys().last(2), std::span(before).last(2)));
    }
  }
}

/// The second part has no items at first, so the calls time out and leave the batch half drawn.
TEST(MixedSampler, KeepsTheDrawnPartsInABatchOfTheCallerAndDrawsThemAgainInAnotherBatch) {
  TwoBuffers two;
  NumberedBuffer late(options_of(3));
  MixedSampler all({{two.first.replay, 4}, {late.replay, 2}}, {.seed = 9});
  const auto drawn = [&] { return two.first.replay.stats().sampled_items; };
  // The next batch may have the address of a destroyed batch, and must not be taken for it.
  std::optional<Batch> destroyed = two.first.replay.make_batch(6);
  ASSERT_EQ(all.sample_into(*destroyed, kNoWait).code, Code::TimedOut);
  destroyed.reset();
  Batch first = Batch::of(two.first.schema, two.first.replay.options().window, 6);
  ASSERT_EQ(all.sample_into(first, kNoWait).code, Code::TimedOut);
  ASSERT_EQ(all.sample_into(first, kNoWait).code, Code::TimedOut);
  EXPECT_EQ(drawn(), 8U);
  Batch full = two.first.replay.make_batch(6);
  ASSERT_EQ(two.second.replay.sampler().sample_into(full, 0, 6).code, Code::Ok);
  ASSERT_EQ(all.sample_into(full, kNoWait).code, Code::TimedOut);
  EXPECT_EQ(drawn(), 12U);
  ASSERT_FALSE(all.sample(kNoWait));
  EXPECT_EQ(drawn(), 16U);
  late.append_many(500, 1, 1.0F);
  ASSERT_TRUE(all.sample(kNoWait));
  EXPECT_EQ(drawn(), 16U);
  // A sampler of the same seed that has made the same four draws.
  Sampler same_seed = two.first.replay.sampler({.seed = 9});
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(same_seed.sample(4));
  }
  ASSERT_EQ(all.sample_into(first, kNoWait).code, Code::Ok);
  EXPECT_TRUE(std::ranges::equal(first.keys().first(4), same_seed.sample(4)->keys()));
  EXPECT_EQ(first.now(late.action)[5], 500U);
}

TEST(MixedSampler, RefusesABatchThatDoesNotFitBeforeAnythingIsDrawn) {
  TwoBuffers two;
  MixedSampler both({{two.first.replay, 4}, {two.second.replay, 3}});
  Batch small = two.first.replay.make_batch(6);
  Schema schema;
  (void)schema.observation<float>("x");
  Batch foreign = ReplayBuffer(schema, {.capacity_steps = 10}).make_batch(7);
  expect_refusal([&] { (void)both.sample_into(small); }, {"sample_into", "7", "capacity 6"});
  expect_refusal([&] { (void)both.sample_into(foreign); }, {"sample_into", "another schema"});
  EXPECT_EQ(two.first.replay.stats().sampled_items, 0U);
}

TEST(MixedSampler, ByTheCommonTotalKeepsItsSharesDuringAWait) {
  Options held = options_of(2);
  held.rate_limiter = MinSize{3};
  NumberedBuffer one(options_of(1));
  NumberedBuffer other(held);
  one.append_many(0, 1, 3.0F);
  other.append_many(kOther, 2, 1.5F);
  MixedSampler both({one.replay, other.replay}, 8);
  ASSERT_FALSE(both.sample(kNoWait));
  EXPECT_EQ(both.waits_for(), 1U);
  one.append_many(1, 1, 100.0F);
  other.append_many(kOther + 2, 1, 3.0F);
  const SampleResult batch =
      require_batch(both.sample({.beta = 1.0F, .normalise = Normalise::Not}));
  EXPECT_EQ(both.counts()[0], 4U);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint64_t number = batch->now(one.action)[i];
    // Both totals were 3 when the call began, so each part draws 4. When the second part is drawn,
    // the total of its buffer is 6.
    const double expected = number == 0 ? 0.5 : number == kOther + 2 ? 0.25 : 0.125;
    EXPECT_EQ(batch->probabilities()[i], expected) << number;
    EXPECT_NEAR(batch->weights()[i], 1.0 / (3.0 * expected), 1e-6);
  }
}

/// The second buffer loses all weight while the call waits for the first.
TEST(MixedSampler, ByTheCommonTotalDrawsAgainIfAPartHasLostItsWeight) {
  Options held = options_of(1);
  held.rate_limiter = MinSize{2};
  NumberedBuffer one(held);
  NumberedBuffer other(options_of(2));
  one.append_many(0, 1, 1.0F);
  other.append_many(kOther, 1, 1.0F);
  MixedSampler both({one.replay, other.replay}, 4);
  const std::jthread actor([&] {
    yield_while([&] { return one.replay.stats().samplers_for_items.waiting_now == 0; });
    other.replay.selector().reset(0.0F);
    one.append_many(1, 1, 1.0F);
  });
  const SampleResult batch = require_batch(both.sample());
  EXPECT_EQ(both.counts()[0], 4U);
  EXPECT_EQ(batch->probabilities()[0], 0.5);
}

TEST(MixedSampler, ReportsClosedIfABufferIsClosedOrDestroyed) {
  for (const bool by_total : {false, true}) {
    auto one = std::make_unique<NumberedBuffer>(options_of(1));
    auto other = std::make_unique<NumberedBuffer>(options_of(2));
    Writer writer = one->replay.writer();
    Writer writer_of_other = other->replay.writer();
    one->append_many(writer, 0, 4);
    other->append_many(writer_of_other, kOther, 4);
    const auto both = by_total ? std::make_unique<MixedSampler>(
                                     std::vector<SelectorHandle>{one->replay, other->replay}, 4)
                               : std::make_unique<MixedSampler>(
                                     std::vector<MixedPart>{{one->replay, 2}, {other->replay, 2}});
    ASSERT_TRUE(both->sample());
    other->replay.close();
    EXPECT_EQ(both->sample().status().code, Code::Closed);
    EXPECT_EQ(both->waits_for(), 1U);
    one.reset();
    other.reset();
    EXPECT_EQ(both->sample().status().code, Code::Closed);
  }
}

TEST(MixedSampler, DrawsEachPartByTheSelectorThatItNames) {
  NumberedBuffer line;
  line.append_many(0, 4);
  line.replay.selector().reset(0.0F);
  line.update(line.keys().at(3), 1.0F);
  MixedSampler both({{line.replay, 8}, {line.replay.selector(1), 8}});
  const SampleResult batch = require_batch(both.sample());
  const auto numbers = batch->now(line.id);
  EXPECT_TRUE(std::all_of(numbers.begin(), numbers.begin() + 8, [](auto n) { return n == 3; }));
  EXPECT_EQ(std::set(numbers.begin() + 8, numbers.end()).size(), 4U)
      << "a stratified draw of uniform weights has each item";
}

TEST(MixedSampler, AStopRequestEndsTheWaitOfAPart) {
  TwoBuffers two;
  NumberedBuffer empty(options_of(3));
  MixedSampler both({{two.first.replay, 2}, {empty.replay, 2}});
  std::stop_source stop;
  std::jthread stopper([&] {
    yield_while([&] { return empty.replay.stats().samplers_for_items.waiting_now == 0; });
    stop.request_stop();
  });
  EXPECT_EQ(both.sample({.stop = stop.get_token()}).status().code, Code::Stopped);
}

TEST(MixedSampler, RefusesAWrongUpdateBeforeItChangesAnyBuffer) {
  TwoBuffers two;
  MixedSampler both({{two.first.replay, 2}, {two.second.replay, 2}});
  const SampleResult batch = require_batch(both.sample());
  std::vector<ItemKey> keys(batch->keys().begin(), batch->keys().end());
  std::vector<float> priorities(4, 1.0F);
  const auto refused = [&](std::initializer_list<std::string_view> words) {
    expect_refusal([&] { (void)both.update_priorities(keys, priorities); }, words);
    EXPECT_EQ(two.first.replay.stats().applied_updates, 0U);
    EXPECT_EQ(two.second.replay.stats().applied_updates, 0U);
  };
  priorities[3] = -1.0F;
  refused({"MixedSampler::update_priorities", "priorities[3]", "-1"});
  priorities.pop_back();
  refused({"4 keys", "3 priorities", "equal counts"});
  priorities.push_back(1.0F);
  const ItemKey good = keys[3];
  keys[3] = ItemKey::make(good.slot(), good.generation(), 3);
  refused({"keys[3]", "tag 3", "of the parts"});
  keys[3] = ItemKey::make(std::numeric_limits<std::uint32_t>::max(), 0, 2);
  refused({"MixedSampler::update_priorities", "tag 2"});
  keys[3] = good;
  EXPECT_EQ(both.update_priorities(keys, priorities).applied, 4U);

  NumberedBuffer same_tag(options_of(1));
  MixedSampler of_one_tag({{two.first.replay, 2}, {same_tag.replay, 2}});
  expect_refusal([&] { (void)of_one_tag.update_priorities({}, {}); },
                 {"parts[0] and parts[1]", "key_tag 1", "whole batch"});
}

TEST(MixedSampler, ChecksAPriorityByTheSelectorOfItsItemsBuffer) {
  NumberedBuffer one(options_of(1, Proportional{.alpha = 1.0F}));
  NumberedBuffer steep(options_of(2, Proportional{.alpha = 8.0F}));
  one.append_many(0, 10);
  steep.append_many(kOther, 10);
  MixedSampler both({{one.replay, 2}, {steep.replay, 2}});
  const SampleResult batch = require_batch(both.sample());
  constexpr float kTooSteep = 1e6F;  // The 8th power of 1e6 is above the largest float.
  EXPECT_EQ(
      both.update_priorities(batch->keys(), std::vector{kTooSteep, kTooSteep, 1.0F, 1.0F}).applied,
      4U);
  expect_refusal(
      [&] {
        (void)both.update_priorities(batch->keys(),
                                     std::vector{kTooSteep, kTooSteep, 1.0F, kTooSteep});
      },
      {"MixedSampler::update_priorities", "priorities[3]", "finite weight"});
  EXPECT_EQ(one.replay.stats().applied_updates + steep.replay.stats().applied_updates, 4U);
}

TEST(MixedSampler, UpdatesBuffersOfTheSameTagByThePlacesOfExactParts) {
  TwoBuffers two;
  NumberedBuffer twin(options_of(1));
  twin.append_many(500, 10, 1.0F);
  MixedSampler all({{two.first.replay, 40}, {two.second.replay, 9}, {twin.replay, 60}});
  const SampleResult batch = require_batch(all.sample());
  std::vector<ItemKey> keys(batch->keys().begin(), batch->keys().end());
  std::vector<float> priorities;
  for (const std::uint64_t number : numbers_of(batch, two.first)) {
    priorities.push_back(number == 3 || number == 505 ? 1.0F : 0.0F);
  }
  EXPECT_EQ(all.update_priorities(keys, priorities).applied, 109U);
  EXPECT_EQ(two.first.replay.stats().applied_updates, 40U);
  EXPECT_EQ(twin.replay.stats().applied_updates, 60U);
  for (MixedPart part : {MixedPart{two.first.replay, 3}, MixedPart{twin.replay, 505}}) {
    EXPECT_EQ(as_lvalue(part.selector.sampler()).sample(1)->now(two.first.action)[0], part.items);
  }
  std::swap(keys[0], keys[40]);
  for (const std::size_t count : {109U, 108U}) {
    expect_refusal(
        [&] {
          const std::span<const float> values(priorities);
          (void)all.update_priorities(std::span(keys).first(count), values.first(count));
        },
        {"MixedSampler::update_priorities", count == 109 ? "keys[0] has tag 2" : "key_tag 1"});
  }
  EXPECT_EQ(two.first.replay.stats().applied_updates, 40U);
  MixedSampler common({two.first.replay, twin.replay}, 2);
  expect_refusal(
      [&] {
        (void)common.update_priorities(std::span(keys).first(2), {{1.0F, 1.0F}});
      },
      {"key_tag 1", "exact parts"});
}

/// Expects that a selector draws only the step with this number.
void expect_only(const SelectorHandle& selector, const NumberedBuffer& line, std::uint64_t number) {
  Sampler sampler = selector.sampler();
  const SampleResult batch = require_batch(sampler.sample(8));
  for (const std::uint64_t drawn : batch->now(line.action)) {
    EXPECT_EQ(drawn, number);
  }
}

TEST(MixedSampler, UpdatesEachSelectorThatDrawsFromABuffer) {
  TwoBuffers two;
  NumberedBuffer line(
      SmallOptions{.selectors = {kRawProportional, Proportional{.alpha = 8.0F}}, .key_tag = 3});
  line.append_many(0, 4, 1.0F);
  MixedSampler all({{line.replay, 2},
                    {two.first.replay, 2},
                    {line.replay.selector(1), 2},
                    {line.replay.selector(1), 1}});
  const std::vector<ItemKey> keys = line.key_list();
  expect_refusal(
      [&] {
        (void)all.update_priorities(keys, std::vector{1.0F, 1e6F, 0.0F, 0.0F});
      },
      {"MixedSampler::update_priorities", "priorities[1]", "finite weight"});
  EXPECT_EQ(line.replay.stats().applied_updates, 0U);
  const UpdateResult result = all.update_priorities(keys, std::vector{0.0F, 1.0F, 0.0F, 0.0F});
  EXPECT_EQ(result.applied, 4U) << "each key counts once";
  EXPECT_EQ(result.stale, 0U);
  EXPECT_EQ(line.replay.stats().applied_updates, 8U);
  expect_only(line.replay.selector(0), line, 1);
  expect_only(line.replay.selector(1), line, 1);
}

TEST(MixedSampler, UpdatesEachSelectorOfBuffersOfTheSameTag) {
  const Options options = SmallOptions{.selectors = {kRawProportional, kRawProportional}};
  NumberedBuffer line(options);
  NumberedBuffer twin(options);
  line.append_many(0, 4, 1.0F);
  twin.append_many(0, 4, 1.0F);
  MixedSampler all({{line.replay, 8}, {twin.replay, 8}, {line.replay.selector(1), 8}});
  const SampleResult batch = require_batch(all.sample());
  std::vector<float> priorities(16, 1.0F);
  for (const std::uint64_t number : batch->now(line.action).last(8)) {
    priorities.push_back(number == 3 ? 1.0F : 0.0F);
  }
  EXPECT_EQ(all.update_priorities(batch->keys(), priorities).applied, 24U);
  EXPECT_EQ(twin.replay.stats().applied_updates, 8U);
  expect_only(line.replay.selector(0), line, 3);
  expect_only(line.replay.selector(1), line, 3);
}

/// Expects the constructor to refuse these arguments with a message that has these words.
template <class... Arguments>
void refuses(std::initializer_list<std::string_view> words, Arguments&&... arguments) {
  expect_refusal([&] { const MixedSampler refused(arguments...); }, words);
}

TEST(MixedSampler, RefusesPartsThatDoNotFit) {
  using Parts = std::vector<MixedPart>;
  using Buffers = std::vector<SelectorHandle>;
  TwoBuffers two;
  ReplayBuffer& one = two.first.replay;
  Options longer = options_of(3);
  longer.window = Transitions{.n_step = 3};
  NumberedBuffer window(longer);
  Schema schema;
  (void)schema.observation<float>("x");
  ReplayBuffer foreign(schema, {.capacity_steps = 10});
  refuses({"no parts"}, Parts{});
  refuses({"no parts"}, Buffers{}, std::size_t{1});
  refuses({"0 items", "at least 1"}, Parts{{one, 1}, {one, 0}});
  refuses({"0 items", "at least 1"}, Buffers{one}, std::size_t{0});
  constexpr std::size_t kHalf = std::size_t{1} << 63U;
  refuses({"below 2^32 in all"}, Parts{{one, kHalf + 1}, {one, kHalf + 1}});
  refuses({"parts[1]", "another window"}, Parts{{one, 1}, {window.replay, 1}});
  refuses({"parts[1]", "another schema"}, Buffers{one, foreign}, std::size_t{1});
  refuses({"resume is 1", "MixedSampler"}, Parts{{one, 1}}, SamplerOptions{.resume = 1});
  refuses({"parts[0]", "twice"}, Buffers{one, one}, std::size_t{1});
  refuses({"fresh is 0.5", "common total: 0"}, Buffers{one}, std::size_t{1},
          SamplerOptions{.fresh = 0.5F});
  Options limited = options_of(4);
  limited.max_times_sampled = 2;
  NumberedBuffer counted(limited);
  refuses({"parts[1]", "max_times_sampled 2"}, Buffers{one, counted.replay}, std::size_t{1});
  for (const Selector& selector :
       {Selector(Fifo{}), Selector(RankBased{}), Selector(Recency{}), Selector(Mixture{})}) {
    NumberedBuffer other(options_of(5, selector));
    refuses({"parts[1]", "weights"}, Buffers{one, other.replay}, std::size_t{1});
    EXPECT_NO_THROW(MixedSampler({{one, 1}, {other.replay, 1}}));
  }
}

TEST(MixedSampler, RefusesOptionsBeforeAnythingIsDrawn) {
  TwoBuffers two;
  Options small = options_of(3);
  small.capacity_steps = 20;
  NumberedBuffer other(small);
  other.append_many(kOther, 20);
  MixedSampler exact({{two.first.replay, 2}, {other.replay, 30}});
  MixedSampler common({two.first.replay, other.replay}, 30);
  const auto refused = [&](MixedSampler& both, const SampleOptions& options,
                           std::initializer_list<std::string_view> words) {
    expect_refusal([&] { (void)both.sample(options); }, words);
    EXPECT_EQ(two.first.replay.stats().sampled_items, 0U);
  };
  refused(exact, {.normalise = Normalise::ByBuffer}, {"ByBuffer", "exact parts"});
  refused(exact, {.draws = Draws::WithoutReplacement}, {"30 different items", "20"});
  for (MixedSampler* const both : {&exact, &common}) {
    refused(*both, {.beta = 2.0F}, {"beta is 2"});
    refused(*both, {.timeout = -1ns}, {"timeout is -1"});
  }
  refused(common, {.draws = Draws::WithoutReplacement}, {"Stratified and Independent"});
  refused(common, {.draws = Draws::Epoch}, {"Stratified and Independent"});
}

}  // namespace
}  // namespace reprise::test
