// Denormal priorities, on threads that take them for 0 and on others.
#include "testing/fixtures/without_denormals.hpp"
#include "testing/fixtures/wrapped_selector.hpp"
#include "testing/laws/own_selectors.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr float kSmallest = std::numeric_limits<float>::min();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

const std::vector<float> kPriorities{0.0F, kDenormal, 0.0F, kSmallest / 2, -0.0F, kSmallest, 0.0F};
/// What they count as.
const std::vector<float> kNormal{0.0F, kSmallest, 0.0F, kSmallest, 0.0F, kSmallest, 0.0F};

std::vector<Selector> all_selectors() {
  std::vector<Selector> all;
  for (const float alpha : {0.5F, 0.6F, 1.0F, 2.0F, 8.0F}) {
    all.emplace_back(Proportional{.alpha = alpha, .epsilon = 0.0F});
  }
  all.emplace_back(Proportional{.alpha = 1.0F, .epsilon = kDenormal});
  all.emplace_back(Mixture{.uniform = 0.0F, .alpha = 1.0F});
  all.emplace_back(LossAdjusted{});
  all.emplace_back(RankBased{});
  all.emplace_back(CustomPower{});
  return all;
}

/// A buffer of seven items with these priorities, which they get by an update or come with.
NumberedBuffer filled(const Selector& selector, const std::vector<float>& priorities,
                      bool updated) {
  NumberedBuffer line(SmallOptions{.selectors = {selector}});
  line.append_many(0, priorities.size(),
                   [&](std::uint64_t i) { return updated ? 1.0F : priorities[i]; });
  if (updated) {
    line.replay.update_priorities(line.key_list(), priorities);
  }
  return line;
}

TEST(DenormalPriorities, CountAsTheSmallestNormalOneOnEveryThread) {
  REPRISE_SKIP_WITHOUT_FLUSHING();
  const std::vector<Selector> selectors = all_selectors();
  for (std::size_t s = 0; s < selectors.size(); ++s) {
    for (const bool updated : {false, true}) {
      NumberedBuffer normal = filled(selectors[s], kNormal, updated);
      const auto expected = normal.probabilities();
      for (const bool written_flushed : {false, true}) {
        NumberedBuffer line = call_flushed(
            written_flushed, [&] { return filled(selectors[s], kPriorities, updated); });
        for (const bool drawn_flushed : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << "selector " << s << ", updated " << updated << ", written flushed "
                       << written_flushed << ", drawn flushed " << drawn_flushed);
          EXPECT_EQ(call_flushed(drawn_flushed, [&] { return line.probabilities(); }), expected);
          const auto keys = line.key_list();
          std::vector<float> read(keys.size());
          std::vector<float> expected_read(keys.size());
          call_flushed(drawn_flushed, [&] { line.replay.selector(0).priorities(keys, read); });
          normal.replay.selector(0).priorities(normal.key_list(), expected_read);
          EXPECT_EQ(read, expected_read);
        }
      }
    }
  }
}

TEST(DenormalPriorities, OfAllItemsAreDrawnAlike) {
  REPRISE_SKIP_WITHOUT_FLUSHING();
  NumberedBuffer line;
  line.append_many(0, 5, kDenormal);
  const auto drawn = call_flushed(true, [&] { return line.probabilities(); });
  EXPECT_EQ(drawn.size(), 5U);
  for (const auto& [number, probability] : drawn) {
    EXPECT_LT(number, 5U);
    EXPECT_NEAR(probability, 0.2, 1e-13);
  }
}

TEST(DenormalPriorities, AreInOrderWithTheSmallestNormalOne) {
  REPRISE_SKIP_WITHOUT_FLUSHING();
  for (const Selector& selector : {Selector(MaxHeap{}), Selector(MinHeap{})}) {
    const auto first = [&](std::vector<float> priorities, bool flushed) {
      return call_flushed(flushed, [&] {
        NumberedBuffer line = filled(selector, priorities, true);
        auto sampler = line.replay.sampler({.seed = 1});
        const auto batch = sampler.sample(7, kNoWait);
        const auto ids = batch->now(line.id);
        return std::vector<std::uint64_t>(ids.begin(), ids.end());
      });
    };
    EXPECT_EQ(first(kPriorities, false), first(kNormal, false));
    EXPECT_EQ(first(kPriorities, true), first(kNormal, false));
  }
}

/// A shard selector that notes the raw priorities with which items enter.
class NotingSelector final : public WrappedSelector {
 public:
  NotingSelector(std::unique_ptr<ShardSelector> wrapped, std::vector<float>& noted)
      : WrappedSelector(std::move(wrapped)), noted_(noted) {}
  void insert(const ItemRun& run, const SelectorSummary& others) noexcept override {
    std::ranges::copy_if(run.priorities, std::back_inserter(noted_), is_item);
    WrappedSelector::insert(run, others);
  }

 private:
  std::vector<float>& noted_;
};

TEST(DenormalPriorities, DoNotComeToAUsersSelector) {
  REPRISE_SKIP_WITHOUT_FLUSHING();
  for (const bool flushed : {false, true}) {
    std::vector<float> noted;
    call_flushed(flushed, [&] {
      const NumberedBuffer line =
          filled(Wrapping{kRawProportional,
                          [&](auto wrapped) {
                            return std::make_unique<NotingSelector>(std::move(wrapped), noted);
                          }},
                 kPriorities, false);
      EXPECT_EQ(line.replay.size(), kPriorities.size());
    });
    EXPECT_EQ(noted, kNormal);
  }
}

TEST(DenormalPriorities, BelowZeroAreRefusedOnEveryThread) {
  REPRISE_SKIP_WITHOUT_FLUSHING();
  NumberedBuffer line;
  line.append(0, 1.0F);
  const std::vector<ItemKey> keys = line.key_list();
  for (const bool flushed : {false, true}) {
    call_flushed(flushed, [&] {
      EXPECT_THROW(line.replay.update_priorities(keys, std::vector{-kDenormal}),
                   std::invalid_argument);
      EXPECT_THROW(line.append(1, -kDenormal), std::invalid_argument);
    });
  }
}

}  // namespace
}  // namespace reprise::test
