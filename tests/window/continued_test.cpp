#include "testing/fixtures/any_values.hpp"
#include "testing/test.hpp"

/// Tests of streams for what `Conformance` does not check when it compares them with its model.
namespace reprise::test {
namespace {

using Steps = std::vector<std::uint64_t>;
using Flags = std::vector<bool>;

Options stream_options(Sequences window) {
  window.end = SequenceEnd::Continue;
  return SmallOptions{.window = window, .selectors = {Uniform{}}, .chunk_steps = 0};
}

template <class T>
auto slice(std::span<T> column, std::size_t item, std::size_t steps) {
  const auto values = column.subspan(item * steps, steps);
  return std::vector<std::remove_const_t<T>>(values.begin(), values.end());
}

/// A batch of this many items, without waiting.
SampleResult draw_items(Sampler& sampler, std::size_t items) {
  return require_batch(sampler.sample(items, kNoWait));
}

/// The numbers of the first steps of all items.
Steps first_steps(NumberedBuffer& line) {
  (void)line.replay.size();
  const std::size_t items = line.replay.stats().items;
  if (items == 0) {
    return {};
  }
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(4 * items, kNoWait));
  std::set<std::uint64_t> found;
  for (std::size_t i = 0; i < batch->size(); ++i) {
    found.insert(batch->now(line.action)[i * batch->now(line.action).size() / batch->size()]);
  }
  return {found.begin(), found.end()};
}

/// An episode of one step takes two rows, so these windows have the most rows that a window can
/// have.
TEST(Continued, WindowsOfEndsAloneFitInTheSmallestChunks) {
  for (const std::uint32_t steps : {1U, 2U, 5U}) {
    for (const std::uint32_t stack : {1U, 3U}) {
      Options options = stream_options({.length = steps, .period = 1, .frame_stack = stack});
      options.chunk_steps = 2 * steps + stack;
      NumberedBuffer line(options);
      for (std::uint64_t number = 0; number < 40; ++number) {
        line.append(number, End::Truncated);
      }
      EXPECT_EQ(first_steps(line), number_range(0, 41 - steps));
    }
  }
  Options options = stream_options({.length = 3, .burn_in = 1, .frame_stack = 2});
  options.chunk_steps = 9;
  expect_refusal(
      [&] { NumberedBuffer line(options); },
      {"chunk_steps is 9; allowed: 2 * (burn_in + length) + frame_stack = 8 + 2 = 10 to "});
}

TEST(Continued, PrioritiesAreOfTheItemsThatAnEpisodeDecides) {
  NumberedBuffer line(stream_options({.length = 3, .period = 2}));
  Writer writer = line.replay.writer();
  std::size_t items = 0;
  for (std::size_t steps = 1; steps < 12; ++steps) {
    const std::vector<std::uint64_t> numbers = number_range(100 * steps, 100 * steps + steps + 1);
    const std::vector<float> rewards(steps, 0.0F);
    const AnyValue values[] = {now_of(line.id, numbers),
                               now_of(line.action, std::span(numbers).first(steps)),
                               now_of(line.reward, rewards)};
    const std::size_t decided = writer.check_episode(steps, End::Truncated, {});
    const std::vector<float> priorities(decided, 1.0F);
    std::size_t taken = 0;
    ASSERT_EQ(writer.add_episode(steps, End::Truncated, values, taken, priorities),
              CommitStatus::Committed);
    items += decided;
    ASSERT_EQ(first_steps(line).size(), items) << steps;
  }
  constexpr std::size_t kSteps = 11 * 12 / 2;
  EXPECT_EQ(items, (kSteps - 3) / 2 + 1)
      << "the first item ends with step 3, the others follow by 2";
}

TEST(Continued, ValuesOfMutableColumnsReachTheirSteps) {
  Schema schema;
  const auto id = schema.observation<std::uint64_t>("id");
  const auto latent = schema.mutable_column<float>("latent", {2});
  ReplayBuffer replay(schema, stream_options({.length = 4, .period = 4}));
  Writer writer = replay.writer();
  for (std::uint64_t number = 0; number < 4; ++number) {
    if (!writer.in_episode()) {
      writer.begin_episode();
      writer.now(id) = number;
    }
    writer.next(id) = number + 1;
    std::ranges::fill(writer.now(latent), static_cast<float>(number));
    writer.commit(number % 2 == 0 ? End::Terminated : End::Continue);
  }
  Sampler sampler = replay.sampler();
  const auto drawn = [&] { return slice(draw_items(sampler, 1)->now(latent), 0, 8); };
  EXPECT_EQ(drawn(), (std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3}));
  const ItemKey key = draw_items(sampler, 1)->keys()[0];
  const std::vector<float> values{10, 11, 12, 13, 14, 15, 16, 17};
  EXPECT_EQ(replay.update({&key, 1}, latent, values).applied, 1U);
  EXPECT_EQ(drawn(), values);
  EXPECT_EQ(replay.update({&key, 1}, latent, std::vector<float>{-1, -2}).applied, 1U);
  EXPECT_EQ(drawn(), (std::vector<float>{-1, -2, 12, 13, 14, 15, 16, 17}));
}

/// The last step of an item is also the burn-in of the next item. If an update names both items,
/// the step gets the value of the first item: `skip` leaves out the value that comes with the
/// burn-in.
TEST(Continued, AnUpdateThatSkipsTheBurnInLeavesItToTheItemBefore) {
  Schema schema;
  const auto id = schema.observation<std::uint64_t>("id");
  const auto latent = schema.mutable_column<float>("latent");
  ReplayBuffer replay(schema, stream_options({.length = 2, .period = 2, .burn_in = 1}));
  Writer writer = replay.writer();
  writer.begin_episode();
  writer.now(id) = 0;
  for (std::uint64_t number = 0; number < 5; ++number) {
    writer.next(id) = number + 1;
    writer.now(latent) = 0.0F;
    writer.commit(End::Continue);
  }
  Sampler sampler = replay.sampler();
  std::map<std::uint64_t, ItemKey> found;  // By first step.
  while (found.size() < 2) {
    const SampleResult batch = draw_items(sampler, 1);
    found[batch->now(id)[0]] = batch->keys()[0];
  }
  const std::vector<ItemKey> keys{found.at(0), found.at(2)};
  const auto latents = [&] { return slice(replay.gather(keys).now(latent), 0, 6); };
  const std::vector<float> values{-1, 1, 2, -1, 3, 4};
  EXPECT_EQ(replay.update(keys, latent, values, /*skip=*/1).applied, 2U);
  EXPECT_EQ(latents(), (std::vector<float>{0, 1, 2, 2, 3, 4}));
  EXPECT_EQ(replay.update(keys, latent, values).applied, 2U);
  EXPECT_EQ(latents(), (std::vector<float>{-1, 1, -1, -1, 3, 4}));
  expect_refusal([&] { replay.update(keys, latent, values, /*skip=*/3); },
                 {"update: skip is 3; allowed: below the number of values of a key, here 3"});
  expect_refusal([&] { replay.update(keys, latent, std::vector<float>(2), /*skip=*/1); },
                 {"skip is 1; allowed: below the number of values of a key, here 1"});
  EXPECT_EQ(replay.update({}, latent, {}, /*skip=*/1).applied, 0U);
}

TEST(Continued, ItemsThatAreGoneHaveNoFlags) {
  NumberedBuffer line(stream_options({.length = 2, .period = 1}));
  line.append(1, End::Terminated);
  line.append(2, End::Truncated);
  Sampler sampler = line.replay.sampler();
  const ItemKey key = draw_items(sampler, 1)->keys()[0];
  Batch batch = line.replay.make_batch(1);
  line.replay.gather({&key, 1}, batch);
  EXPECT_EQ(slice(batch.is_first(), 0, 2), Flags(2, true));
  EXPECT_EQ(slice(batch.truncated(), 0, 2), (Flags{false, true}));
  line.replay.clear();
  line.replay.gather({&key, 1}, batch);
  for (const auto flags : {batch.is_first(), batch.terminated(), batch.truncated()}) {
    EXPECT_EQ(slice(flags, 0, 2), Flags(2, false));
  }
}

TEST(Continued, RefusesWhatDoesNotFit) {
  NumberedBuffer line(stream_options({.length = 2, .period = 1}));
  expect_refusal(
      [&] { auto sampler = line.replay.sampler({.unique_frames = true}); },
      {"SamplerOptions::unique_frames: window is Sequences with end = Continue; allowed: none"});
  expect_refusal(
      [] { NumberedBuffer large(stream_options({.length = 32000, .burn_in = 768})); },
      {"Sequences::end is Continue, and burn_in + length is 32768; allowed: at most 32767"});
  Schema schema;
  schema.observation<float>("x");
  schema.column<bool>("is_first");
  expect_refusal(
      [&] { ReplayBuffer replay(schema, stream_options({.length = 2})); },
      {"field 'is_first' has the name of what batches of Sequences with end = Continue have"});
  EXPECT_THROW((void)line.replay.hindsight(line.id, {}), std::invalid_argument);
  NumberedBuffer other(SmallOptions{.window = Sequences{.length = 2}});
  expect_refusal<std::logic_error>(
      [&] { (void)other.replay.make_batch(1).is_first(); },
      {"is_first, terminated and truncated: allowed with Sequences of end = Continue"});
}

}  // namespace
}  // namespace reprise::test
