#include "buffer/plan.hpp"

#include <reprise/item.hpp>

#include "testing/test.hpp"

namespace reprise::buffer {
namespace {

constexpr std::size_t kMaxSlots = std::numeric_limits<std::uint32_t>::max();

Plan plan(const Options& options, std::size_t observation_bytes = 8) {
  Schema schema;
  const std::size_t shape[] = {observation_bytes};
  schema.observation<std::uint8_t>("state", std::span(shape));
  return make_plan(options, storage::RowLayout(schema), window::WindowSpec(options.window));
}

void expect_refused(const Options& options, std::initializer_list<std::string_view> words,
                    std::size_t observation_bytes = 8) {
  test::expect_refusal([&] { plan(options, observation_bytes); }, words);
}

TEST(Plan, AddsUpTheChunksThatKeepTheCapacityResident) {
  // A chunk of 21 rows holds at least 10 items, so 1000 steps need 100 chunks. Each of 3 writers
  // may hold an open chunk, and leave one in each of 2 shards that lost items while it was open.
  // Each shard may have 3 more, partly filled or pinned. The sum is rounded up.
  const Plan made =
      plan({.capacity_steps = 1000, .max_writers = 3, .chunk_steps = 21, .shards = 2});
  EXPECT_EQ(made.chunk_rows, 21U);
  EXPECT_EQ(made.chunks_per_shard, (100U + 3 + 3 * 2 + 3 * 2 + 1) / 2);
}

TEST(Plan, ChoosesChunksByAQuarterOfTheCapacityWithinBounds) {
  const auto rows = [](std::size_t capacity, std::size_t writers, Transitions window = {}) {
    return plan({.capacity_steps = capacity, .window = window, .max_writers = writers}).chunk_rows;
  };
  EXPECT_EQ(rows(400'000, 100), 1000U);
  EXPECT_EQ(rows(4'000'000, 100), 2048U) << "at most";
  EXPECT_EQ(rows(10, 100), 64U) << "at least";
  EXPECT_EQ(rows(10, 100, {.n_step = 9}), 160U) << "at least 16 windows of 10 rows";
  EXPECT_EQ(rows(10, 100, {.n_step = 1000}), 16U * 1001) << "16 windows, though that is over 2048";
}

/// If 0 were possible, one tag in 4096 would be 0, and 129 of 130 runs would find a 0.
TEST(Plan, ARandomTagIsNeverThatOfAKeyOfZeros) {
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_NE(plan({.capacity_steps = 9}).options.key_tag, 0);
  }
}

TEST(Plan, KeepsRoomForCapacityWritersAndPinsWhateverTheOptions) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    test::Rng rng(seed);
    Options options{.capacity_steps = rng.between(1, std::size_t{1} << rng.between(0, 22)),
                    .max_writers = rng.between(1, 300)};
    const Transitions window{.n_step = static_cast<std::uint32_t>(rng.between(1, 9)),
                             .frame_stack = static_cast<std::uint32_t>(rng.between(1, 6))};
    options.window = window;
    const window::WindowSpec spec(options.window);
    if (rng.chance(0.5)) {
      options.chunk_steps = spec.min_chunk_rows() + rng.below(200);
    }
    if (rng.chance(0.5)) {
      options.shards = rng.between(1, std::min<std::size_t>(options.capacity_steps, 256));
    }
    const Plan made = plan(options);
    const std::size_t shards = made.options.shards;
    const std::size_t chunks = made.chunks_per_shard * shards;
    // Chunks beside those of the capacity: open, left by writers, partly filled and pinned ones.
    const std::size_t extra_chunks = options.max_writers * (1 + shards) + 3 * shards;
    ASSERT_GE(made.chunk_rows, spec.min_chunk_rows());
    ASSERT_GT(chunks, extra_chunks);
    ASSERT_GE((chunks - extra_chunks) * spec.min_items(made.chunk_rows), options.capacity_steps);
    ASSERT_LE(chunks * made.chunk_rows, kMaxSlots);
  }
}

TEST(Plan, RefusesCapacitiesWritersAndSelectorsOutsideTheirRange) {
  expect_refused({}, {"capacity_steps is 0;", "allowed: 1 to 4294967295"});
  expect_refused({.capacity_steps = kMaxSlots + 1}, {"capacity_steps is 4294967296;", "allowed"});
  expect_refused({.capacity_steps = 9, .max_writers = 0}, {"max_writers is 0;", "1 to 65536"});
  expect_refused({.capacity_steps = 9, .max_writers = 65537},
                 {"max_writers is 65537;", "1 to 65536"});
  expect_refused({.capacity_steps = 9, .selectors = {}},
                 {"number of selectors is 0;", "allowed: 1 to 16"});
  const std::vector<Selector> many(kMaxSelectors + 1, Uniform{});
  expect_refused({.capacity_steps = 9, .selectors = many},
                 {"number of selectors is 17;", "allowed: 1 to 16"});
  EXPECT_NO_THROW(
      plan({.capacity_steps = 9, .selectors = std::vector<Selector>(kMaxSelectors, Uniform{})}));
}

TEST(Plan, RefusesMoreShardsThanStepsOrThan256) {
  expect_refused({.capacity_steps = 9, .shards = 10},
                 {"shards is 10;", "1 to min(capacity_steps, 256) = 9"});
  expect_refused({.capacity_steps = 5000, .shards = 257},
                 {"shards is 257;", "1 to min(capacity_steps, 256) = 256"});
  EXPECT_NO_THROW(plan({.capacity_steps = 9, .shards = 9}));
}

TEST(Plan, RefusesChunksTooSmallForAWindowShowingTheSum) {
  Options options{.capacity_steps = 100, .chunk_steps = 6};
  options.window = Transitions{.n_step = 3, .frame_stack = 4};
  expect_refused(options,
                 {"chunk_steps is 6;", "allowed: n_step + frame_stack = 3 + 4 = 7 to 4294967295"});
  options.window = Sequences{.length = 5, .burn_in = 2};
  expect_refused(options,
                 {"chunk_steps is 6;",
                  "allowed: burn_in + length + frame_stack = 2 + 5 + 1 = 8 to 4294967295"});
  options.window = Transitions{.n_step = 3, .frame_stack = 4};
  options.chunk_steps = 7;
  EXPECT_EQ(plan(options).chunk_rows, 7U);
  options.chunk_steps = kMaxSlots + 1;
  expect_refused(options, {"chunk_steps is 4294967296;", "7 to 4294967295"});
}

TEST(Plan, RefusesMoreRowsThanSlotsHaveNumbersShowingTheSum) {
  expect_refused(
      {.capacity_steps = kMaxSlots, .chunk_steps = 1025},
      {"capacity_steps is 4294967295: ceil(4294967295 steps / 512 items in a chunk) + 256 writers "
       "* (1 + 4 shards) + 4 shards * 3 chunks of 1025 rows of 24 bytes each is more than 2^32 - 1 "
       "rows",
       "allowed: at most 2144724992"});
}

/// The number after "at most " in the message with which these options are refused.
std::size_t allowed_max(const Options& options, std::size_t observation_bytes) {
  try {
    plan(options, observation_bytes);
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    return std::stoull(message.substr(message.find("allowed: at most ") + 17));
  }
  ADD_FAILURE() << "was not refused";
  return 0;
}

TEST(Plan, RefusalsForLackOfSlotsOrMemoryNameTheLargestValueThatFits) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 24U}) {
    Options options{.capacity_steps = kMaxSlots, .max_writers = 3, .chunk_steps = 21, .shards = 2};
    options.capacity_steps = allowed_max(options, bytes);
    EXPECT_NO_THROW(plan(options, bytes));
    ++options.capacity_steps;
    expect_refused(options, {"capacity_steps is "}, bytes);

    Options writers{.capacity_steps = 5, .chunk_steps = std::size_t{1} << 24U, .shards = 5};
    writers.chunk_steps = allowed_max(writers, bytes);
    EXPECT_NO_THROW(plan(writers, bytes));
    ++writers.chunk_steps;
    expect_refused(writers, {"chunk_steps is ", "more with fewer max_writers or shards"}, bytes);
  }
}

TEST(Plan, RefusesMoreBytesThanTheAddressSpaceHoldsShowingTheSum) {
  constexpr std::size_t kGiB = std::size_t{1} << 30U;
  expect_refused({.capacity_steps = 1'000'000, .chunk_steps = 101},
                 {"capacity_steps is 1000000: ceil(1000000 steps / 50 items in a chunk)",
                  " chunks of 101 rows of 1073741888 bytes each is more than 2^47 bytes",
                  "allowed: at most 200"},
                 kGiB);
  EXPECT_NO_THROW(plan({.capacity_steps = 1000, .max_writers = 1, .chunk_steps = 101}, kGiB));
}

TEST(Plan, CountsARecurrentStateForEachRow) {
  Schema schema;
  schema.observation<std::uint64_t>("id");
  schema.recurrent_state<std::uint8_t>("lstm", {std::size_t{1} << 30U});
  const Options options{.capacity_steps = 1'000'000, .window = Sequences{}, .chunk_steps = 101};
  test::expect_refusal(
      [&] { make_plan(options, storage::RowLayout(schema), window::WindowSpec(options.window)); },
      {" chunks of 101 rows of 1073741856 bytes each"});
}

}  // namespace
}  // namespace reprise::buffer
