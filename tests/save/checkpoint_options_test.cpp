#include <reprise/removers/lowest_priority.hpp>
#include <reprise/removers/second_chance.hpp>
#include <reprise/selectors/heaps.hpp>
#include <reprise/selectors/rank_based.hpp>

#include "../record/memory_file_system.hpp"
#include "save/save.hpp"
#include "save/stored_options.hpp"
#include "testing/fixtures/another_value.hpp"
#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/test.hpp"

/// How a checkpoint stores options, and which stored options a load refuses.
namespace reprise::test {
namespace {

/// Options none of which has its default value.
Options non_default_options() {
  return {
      .capacity_steps = 300,
      .window =
          Transitions{
              .n_step = 2, .discount = 0.5F, .frame_stack = 3, .stack_start = StackStart::Zeros},
      .selectors = {Proportional{.alpha = 0.25F,
                                 .epsilon = 0.125F,
                                 .initial = InitialPriority::Constant,
                                 .initial_constant = 2.0F},
                    MinHeap{.initial = InitialPriority::Constant, .initial_constant = 3.0F},
                    RankBased{.alpha = 0.75F,
                              .initial = InitialPriority::Constant,
                              .initial_constant = 4.0F}},
      .max_times_sampled = 9,
      .episode_index = true,
      .remover = LowestPriority{.selector = 1, .candidates = 3},
      .rate_limiter =
          SampleToInsertRatio{.samples_per_insert = 2.5, .min_size = 7, .error_buffer = 1000.0},
      .max_writers = 5,
      .chunk_steps = 24,
      .shards = 3,
      .key_tag = 77};
}

void save(MemoryFileSystem& files, const Options& options) {
  NumberedBuffer line(options);
  line.append_many(0, 20);
  save::save(*core_of(line.replay), files, kDirectory, {}, {});
}

template <class Kind, class Strategy>
void expect_same(const Strategy& strategy, const Strategy& as) {
  ASSERT_NE(strategy.template target<Kind>(), nullptr);
  EXPECT_EQ(*strategy.template target<Kind>(), *as.template target<Kind>());
}

TEST(CheckpointOptions, AreThoseOfTheBufferThatWasSaved) {
  const Options saved = non_default_options();
  MemoryFileSystem files;
  save(files, saved);
  const auto core = save::load(files, kDirectory, {}, nullptr).core;
  const Options& loaded = core->options();
  EXPECT_EQ(loaded.capacity_steps, saved.capacity_steps);
  EXPECT_EQ(loaded.window, saved.window);
  ASSERT_EQ(loaded.selectors.size(), 4U);  // `NumberedBuffer` adds a selector.
  expect_same<Proportional>(loaded.selectors[0], saved.selectors[0]);
  expect_same<MinHeap>(loaded.selectors[1], saved.selectors[1]);
  expect_same<RankBased>(loaded.selectors[2], saved.selectors[2]);
  EXPECT_NE(loaded.selectors[3].target<Uniform>(), nullptr);
  EXPECT_EQ(loaded.max_times_sampled, saved.max_times_sampled);
  EXPECT_EQ(loaded.episode_index, saved.episode_index);
  expect_same<LowestPriority>(loaded.remover, saved.remover);
  EXPECT_EQ(loaded.rate_limiter, saved.rate_limiter);
  EXPECT_EQ(loaded.max_writers, saved.max_writers);
  EXPECT_EQ(loaded.chunk_steps, saved.chunk_steps);
  EXPECT_EQ(loaded.shards, saved.shards);
  EXPECT_EQ(loaded.key_tag, saved.key_tag);
}

/// For each strategy and each of its options, expects that options in which only this option is not
/// the default are decoded as they were encoded. Does the same with defaults alone.
template <class Family, class Put>
void expect_round_trip(std::span<const StrategyKind<Family>> kinds, Put put) {
  for (const auto& kind : kinds) {
    for (std::size_t i = 0; i <= kind.options().size(); ++i) {
      std::vector<OptionValue> values;
      for (const StrategyOption& option : kind.options()) {
        values.push_back(values.size() == i ? non_default_value(option) : option.value);
      }
      Options options{.capacity_steps = 9, .key_tag = 0};
      Family& strategy = put(options);
      strategy = kind.make(values);
      record::Encoder to;
      save::encode(to, options);
      record::Decoder from(to.encoded(), "options");
      Options back = save::decode_options(from, save::kOptionsVersion);
      EXPECT_EQ(kind.values(put(back)), values) << kind.name() << ", option " << i;
      EXPECT_EQ(save::user_defined_strategy(back), "");
      EXPECT_EQ(save::difference(back, options), "");
    }
  }
}

TEST(CheckpointOptions, HaveEveryStrategyOfTheLibrary) {
  expect_round_trip(selectors(), [](Options& o) -> Selector& { return o.selectors[0]; });
  expect_round_trip(removers(), [](Options& o) -> Remover& { return o.remover; });
  expect_round_trip(windows(), [](Options& o) -> Window& { return o.window; });
  expect_round_trip(rate_limiters(), [](Options& o) -> RateLimiter& { return o.rate_limiter; });
}

/// Two enumerators that version 1 could store are gone. Each is loaded as the enumerator that does
/// the same now.
TEST(CheckpointOptions, OfVersion1HaveTheWordsThatDoTheSame) {
  record::Encoder to;
  save::encode(
      to,
      Options{.capacity_steps = 9, .window = Sequences{}, .selectors = {MinHeap{}}, .key_tag = 0});
  const std::vector<std::byte> bytes = std::move(to).take();
  // The places of the enumerators: `end` is stored after capacity, kind, count, length, period and
  // burn_in; `initial` after end, n_step, discount, frame_stack, stack_start, the number of
  // selectors, kind and count.
  const std::size_t end = 8 + 2 + 3 * 8;
  const std::size_t initial = end + 2 * 8 + 4 + 2 * 8 + 4 + 2;
  const auto loaded = [&](std::uint8_t word, std::uint8_t number) {
    std::vector<std::byte> old = bytes;
    old.at(end) = std::byte{word};
    old.at(initial) = std::byte{number};
    record::Decoder from(old, "options");
    const Options options = save::decode_options(from, 1);
    from.finish();
    return std::pair(std::get<Sequences>(options.window).end,
                     options.selectors[0].target<MinHeap>()->initial);
  };
  using enum SequenceEnd;
  using enum InitialPriority;
  EXPECT_EQ(loaded(0, 0), std::pair(ZeroPad, HighestSeen));
  EXPECT_EQ(loaded(1, 1), std::pair(ZeroPad, HighestSeen));
  EXPECT_EQ(loaded(2, 2), std::pair(Drop, Constant));
  EXPECT_EQ(loaded(3, 3), std::pair(Overlap, FromCaller));
}

/// The kind of the error that `decode` throws for these bytes, after the byte at `at` was changed
/// to `value`.
template <class Decode>
CheckpointError::Kind refusal_kind(std::vector<std::byte> bytes, std::size_t at, std::uint8_t value,
                                   Decode decode) {
  bytes.at(at) = std::byte{value};
  record::Decoder from(bytes, "options");
  const CheckpointError error = checkpoint_error_of([&] { decode(from); });
  EXPECT_NE(std::string(error.what()).find("does not know"), std::string::npos) << error.what();
  return error.kind();
}

/// If a load called this damage, it would use an older checkpoint instead.
TEST(CheckpointOptions, WhatANewerVersionHasIsUnsupported) {
  record::Encoder to;
  save::encode(to, Options{.capacity_steps = 9, .key_tag = 0});
  const std::vector<std::byte> options = std::move(to).take();
  const auto decode_options = [](record::Decoder& from) {
    (void)save::decode_options(from, save::kOptionsVersion);
  };
  const std::size_t window = sizeof(std::uint64_t);  // The window is stored after the capacity.
  EXPECT_EQ(
      refusal_kind(options, window, static_cast<std::uint8_t>(windows().size()), decode_options),
      CheckpointError::Kind::Unsupported);
  const auto more = static_cast<std::uint8_t>(windows()[0].options().size() + 1);
  EXPECT_EQ(refusal_kind(options, window + 1, more, decode_options),
            CheckpointError::Kind::Unsupported);

  Schema schema;
  (void)schema.reward("reward");
  record::Encoder fields;
  save::encode(fields, schema);
  const std::vector<std::byte> stored = std::move(fields).take();
  const auto decode_schema = [](record::Decoder& from) { (void)save::decode_schema(from); };
  // Role and type are stored before the shape; a scalar's shape is only its length, 0.
  const std::size_t role = stored.size() - 2 - sizeof(std::uint32_t);
  EXPECT_EQ(refusal_kind(stored, role, static_cast<std::uint8_t>(roles().size()), decode_schema),
            CheckpointError::Kind::Unsupported);
  constexpr std::uint8_t kNextType = static_cast<std::uint8_t>(DType::BF16) + 1;
  EXPECT_EQ(refusal_kind(stored, role + 1, kNextType, decode_schema),
            CheckpointError::Kind::Unsupported);
}

TEST(CheckpointOptions, FieldsThatDifferInWhatIsRequiredAreRefused) {
  Schema schema;
  schema.column<float>("a");
  schema.column<float>("b");
  record::Encoder to;
  save::encode(to, schema);
  std::vector<std::byte> stored = std::move(to).take();
  // This byte is the role of the last field.
  stored[stored.size() - 2 - sizeof(std::uint32_t)] |= std::byte{0x80};
  record::Decoder from(stored, "test");
  EXPECT_THROW((void)save::decode_schema(from), CheckpointError);
}

TEST(CheckpointOptions, HaveFloatsOf16BitsByTheNumbersOfTheFormat) {
  Schema schema;
  schema.observation<Float16>("half", {3});
  schema.column<BFloat16>("brain");
  record::Encoder to;
  save::encode(to, schema);
  const std::vector<std::byte> stored = std::move(to).take();
  record::Decoder from(stored, "test");
  EXPECT_EQ(save::decode_schema(from), schema);
  EXPECT_EQ(static_cast<int>(DType::F64), 10);
  EXPECT_EQ(static_cast<int>(DType::F16), 11);
  EXPECT_EQ(static_cast<int>(DType::BF16), 12);
}

TEST(CheckpointOptions, OptionsThatAnOlderVersionLackedGetTheirDefaults) {
  record::Encoder to;
  save::encode(to, Options{.capacity_steps = 9, .window = Transitions{.n_step = 3}, .key_tag = 0});
  std::vector<std::byte> bytes = std::move(to).take();
  std::size_t all = 0;
  for (const StrategyOption& option : windows()[0].options()) {
    all += std::visit([](auto value) { return sizeof(value); }, option.value);
  }
  // The values are stored after capacity, kind and count.
  constexpr std::ptrdiff_t kValues = sizeof(std::uint64_t) + 2;
  bytes.at(kValues - 1) = std::byte{1};
  bytes.erase(bytes.begin() + kValues + sizeof(std::uint64_t),
              bytes.begin() + kValues + static_cast<std::ptrdiff_t>(all));
  record::Decoder from(bytes, "options");
  const Options back = save::decode_options(from, save::kOptionsVersion);
  EXPECT_EQ(std::get<Transitions>(back.window), Transitions{.n_step = 3});
}

TEST(CheckpointOptions, OfAnotherBufferAreNamed) {
  MemoryFileSystem files;
  save(files, non_default_options());
  const auto refused = [&](const std::string& named, const std::function<void(Options&)>& change) {
    Options options = non_default_options();
    change(options);
    NumberedBuffer line(options);
    expect_refusal<CheckpointError>(
        [&] { (void)save::load(files, kDirectory, {}, core_of(line.replay).get()); }, {named});
  };
  refused("capacity_steps is 300 in the checkpoint and 301",
          [](Options& o) { ++o.capacity_steps; });
  refused("max_writers", [](Options& o) { ++o.max_writers; });
  refused("chunk_steps", [](Options& o) { ++o.chunk_steps; });
  refused("shards", [](Options& o) { ++o.shards; });
  refused("max_times_sampled", [](Options& o) { ++o.max_times_sampled; });
  refused("the window", [](Options& o) { std::get<Transitions>(o.window).discount = 0.25F; });
  refused("the number of selectors", [](Options& o) { o.selectors.emplace_back(Uniform{}); });
  refused("selector 0", [](Options& o) { o.selectors[0] = Proportional{.alpha = 0.5F}; });
  refused("selector 1", [](Options& o) {
    o.selectors[1] = MaxHeap{.initial = InitialPriority::Constant, .initial_constant = 3.0F};
  });
  refused("the remover", [](Options& o) { o.remover = LowestPriority{.selector = 1}; });
  refused("the remover", [](Options& o) { o.remover = SecondChance{}; });
}

/// A rule whose exponent has a highest value; with 0 it has no exponent.
template <int kMaxAlpha>
struct Bounded {
  struct Rule final : SelectorRule {
    std::atomic<float> exponent = 0.5F;
    void weigh(std::span<const float> priorities, std::span<float> weights) const noexcept final {
      std::ranges::copy(priorities, weights.begin());
    }
    [[nodiscard]] std::optional<float> alpha() const noexcept final {
      return kMaxAlpha == 0 ? std::nullopt : std::optional<float>(exponent);
    }
    void check_alpha(float alpha) const final {
      if (!(alpha <= static_cast<float>(kMaxAlpha))) {
        throw std::invalid_argument("alpha is above " + std::to_string(kMaxAlpha));
      }
    }
    bool set_alpha(float alpha) noexcept final {
      exponent = alpha;
      return true;
    }
  };
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const {
    return std::make_unique<Rule>();
  }
};

/// Loading an older checkpoint instead would silently lose data.
TEST(CheckpointOptions, AnExponentThatTheUsersOwnRuleRefusesIsAMismatchAndIsNamed) {
  Options options = SmallOptions{.selectors = {Uniform{}, Bounded<4>{}}};
  NumberedBuffer line(options);
  line.append_many(0, 10);
  MemoryFileSystem files;
  save::save(*core_of(line.replay), files, kDirectory, {}, {});
  line.replay.selector(1).set_alpha(3.0F);
  save::save(*core_of(line.replay), files, kDirectory, {}, {});
  const auto restore = [&](const Selector& own) {
    options.selectors[1] = own;
    NumberedBuffer other(options);
    save::Loaded loaded = save::load(files, kDirectory, {}, core_of(other.replay).get());
    core_of(other.replay) = std::move(loaded.core);
    EXPECT_TRUE(loaded.result.skipped.empty());
    EXPECT_EQ(other.replay.selector(1).alpha(), 3.0F);
  };
  restore(Bounded<4>{});
  expect_refusal<CheckpointError>([&] { restore(Bounded<2>{}); },
                                  {"selector 1", "exponent 3", "alpha is above 2"});
  expect_refusal<CheckpointError>([&] { restore(Bounded<0>{}); }, {"selector 1", "exponent 3"});
  EXPECT_EQ(checkpoint_error_of([&] { restore(Bounded<2>{}); }).kind(),
            CheckpointError::Kind::Mismatch);
}

}  // namespace
}  // namespace reprise::test
