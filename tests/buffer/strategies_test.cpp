#include "testing/fixtures/another_value.hpp"
#include "testing/test.hpp"

/// Tests that each entry in the tables of strategies behaves like the struct of its name.
namespace reprise::test {
namespace {

template <class Family>
std::span<const StrategyKind<Family>> kinds();
template <>
std::span<const StrategyKind<Selector>> kinds() {
  return selectors();
}
template <>
std::span<const StrategyKind<Remover>> kinds() {
  return removers();
}
template <>
std::span<const StrategyKind<Window>> kinds() {
  return windows();
}
template <>
std::span<const StrategyKind<RateLimiter>> kinds() {
  return rate_limiters();
}

template <class Family>
class Strategies : public testing::Test {};
using Families = testing::Types<Selector, Remover, Window, RateLimiter>;
TYPED_TEST_SUITE(Strategies, Families);

TYPED_TEST(Strategies, HaveUniqueNamesAndBelongToOneKind) {
  std::set<std::string_view> names;
  for (const auto& kind : kinds<TypeParam>()) {
    EXPECT_TRUE(names.insert(kind.name()).second) << kind.name();
    EXPECT_FALSE(kind.about().empty());
    const TypeParam strategy = kind.make();
    for (const auto& other : kinds<TypeParam>()) {
      EXPECT_EQ(other.values(strategy).has_value(), other.name() == kind.name()) << other.name();
    }
  }
}

TYPED_TEST(Strategies, HaveEachOptionInItsOwnMember) {
  for (const auto& kind : kinds<TypeParam>()) {
    std::vector<OptionValue> defaults;
    for (const StrategyOption& option : kind.options()) {
      defaults.push_back(option.value);
    }
    EXPECT_EQ(kind.values(kind.make()), defaults) << kind.name();
    for (std::size_t i = 0; i < defaults.size(); ++i) {
      std::vector<OptionValue> values = defaults;
      values[i] = non_default_value(kind.options()[i]);
      EXPECT_NE(values, defaults);
      EXPECT_EQ(kind.values(kind.make(values)), values) << kind.options()[i].name;
    }
  }
}

void set(Options& options, const Selector& strategy) {
  options.selectors = {strategy};
}
void set(Options& options, const Remover& strategy) {
  options.remover = strategy;
}
void set(Options& options, const Window& strategy) {
  options.window = strategy;
}
void set(Options& options, const RateLimiter& strategy) {
  options.rate_limiter = strategy;
}

Options default_options() {
  return SmallOptions{.max_times_sampled = 1, .chunk_steps = 0};  // `Queue` needs a draw limit.
}

TYPED_TEST(Strategies, WithDefaultOptionsMakeABufferFromWhichItemsAreDrawn) {
  for (const auto& kind : kinds<TypeParam>()) {
    Options options = default_options();
    set(options, kind.make());
    NumberedBuffer line(options);
    Writer writer = line.replay.writer({.timeout = 0ns});
    std::uint64_t steps = 0;
    while (line.replay.stats().items == 0 && steps < 100 &&
           line.append(writer, steps) == CommitStatus::Committed) {
      ++steps;
    }
    EXPECT_TRUE(as_lvalue(line.replay.sampler()).sample(1, kNoWait)) << kind.name();
  }
}

TYPED_TEST(Strategies, RefuseValuesOutOfRangeOrOfAnotherType) {
  for (const auto& kind : kinds<TypeParam>()) {
    for (std::size_t i = 0; i < kind.options().size(); ++i) {
      const StrategyOption& option = kind.options()[i];
      const auto refused = [&](const OptionValue& value) {
        std::vector<OptionValue> values;
        for (const StrategyOption& each : kind.options()) {
          values.push_back(each.value);
        }
        values[i] = value;
        expect_refusal([&] { (void)kind.make(values); }, {kind.name(), option.name, "allowed"});
      };
      std::visit(
          [&]<class T>(T min) {
            const T max = std::get<T>(option.max);
            if constexpr (std::is_floating_point_v<T>) {
              refused(std::numeric_limits<T>::quiet_NaN());
              refused(std::numeric_limits<T>::infinity());
              refused(std::nextafter(min, T(-1)));
              refused(std::uint64_t{1});
            } else {
              refused(1.0);
              if (min > 0) {
                refused(min - 1);
              }
              if (max < std::numeric_limits<T>::max()) {
                refused(max + 1);
              }
            }
          },
          option.min);
    }
  }
}

template <class Family>
std::vector<std::string_view> names_of(std::span<const StrategyKind<Family>> kinds) {
  std::vector<std::string_view> names;
  std::ranges::transform(kinds, std::back_inserter(names), &StrategyKind<Family>::name);
  return names;
}

/// Fewer values than options are accepted, because checkpoints of older versions have fewer.
TEST(StrategyTables, RefuseMoreValuesThanThereAreOptions) {
  const std::vector<OptionValue> values(StrategyKind<Selector>::kMaxOptions + 1, 1.0F);
  for (const StrategyKind<Selector>& kind : selectors()) {
    expect_refusal([&] { (void)kind.make(values); }, {std::string(kind.name())});
  }
}

TEST(StrategyTables, RefuseMoreOptionsThanAKindHasRoomFor) {
  const auto make = [](std::size_t count) {
    const StrategyKind<Remover> kind("Own", "", {}, count, nullptr, nullptr);
    return kind.options().size();
  };
  constexpr std::size_t kMaxOptions = StrategyKind<Remover>::kMaxOptions;
  EXPECT_EQ(make(kMaxOptions), kMaxOptions);
  expect_refusal([&] { (void)make(kMaxOptions + 1); }, {"count is 9", "0 to 8"});
}

/// Checkpoints name a strategy by its number in its table, so a new one comes last, there and here.
TEST(StrategyTables, KeepTheNumbersOfTheirStrategies) {
  using testing::ElementsAre;
  EXPECT_THAT(names_of(selectors()),
              ElementsAre("Uniform", "Proportional", "RankBased", "Fifo", "Lifo", "MinHeap",
                          "MaxHeap", "Recency", "LossAdjusted", "Mixture"));
  EXPECT_THAT(names_of(removers()), ElementsAre("Fifo", "SecondChance", "LeastRecentlySampled",
                                                "LeastFrequentlySampled", "LowestPriority"));
  EXPECT_THAT(names_of(windows()), ElementsAre("Transitions", "Sequences"));
  EXPECT_THAT(names_of(rate_limiters()),
              ElementsAre("MinSize", "SampleToInsertRatio", "Queue", "Unlimited"));
}

TEST(StrategyTables, HaveTheWindowsInTheOrderOfTheVariant) {
  for (std::size_t number = 0; number < windows().size(); ++number) {
    EXPECT_EQ(windows()[number].make().index(), number);
  }
}

TEST(StrategyTables, MakeTheStructOfEachName) {
  EXPECT_NE(selectors()[6].make().target<MaxHeap>(), nullptr);
  EXPECT_EQ(*removers()[4]
                 .make(std::vector<OptionValue>{std::uint64_t{1}, std::uint64_t{3}})
                 .target<LowestPriority>(),
            (LowestPriority{.selector = 1, .candidates = 3}));
}

TEST(StrategyTables, DoNotKnowAStrategyOfTheUsersOwn) {
  struct Own {
    std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks&) const { return nullptr; }
  };
  for (const auto& kind : removers()) {
    EXPECT_FALSE(kind.values(Own{})) << kind.name();
  }
}

}  // namespace
}  // namespace reprise::test
