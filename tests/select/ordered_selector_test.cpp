#include <reprise/selector.hpp>
#include <reprise/selectors/heaps.hpp>

#include "testing/test.hpp"

namespace reprise {
namespace {

using Leaves = std::vector<std::uint32_t>;

/// A heap in one shard, beside arrays of the items' priorities (-1 if there is no item) and of
/// hidden items.
class Heap {
 public:
  Heap(const Selector& strategy, bool highest, std::size_t leaves)
      : rule_(strategy.make_selector_rule()),
        selector_(rule_->make_shard_selector(leaves)),
        highest_(highest),
        priorities_(leaves, -1.0F),
        hidden_(leaves) {}

  void insert(std::uint32_t first, const std::vector<float>& priorities) {
    selector_->erase(first, priorities.size());
    selector_->insert({first, priorities}, {});
    std::ranges::copy(priorities, priorities_.begin() + first);
    std::fill_n(hidden_.begin() + first, priorities.size(), false);
  }
  void erase(std::uint32_t first, std::size_t count) {
    selector_->erase(first, count);
    std::fill_n(priorities_.begin() + first, count, -1.0F);
    std::fill_n(hidden_.begin() + first, count, false);
  }
  void update(std::uint32_t leaf, float priority) {
    if (priorities_[leaf] >= 0.0F) {
      selector_->update(Leaves{leaf}, std::span(&priority, 1));
      priorities_[leaf] = priority;
      hidden_[leaf] = false;
    }
  }
  void hide(std::uint32_t leaf) {
    selector_->hide(Leaves{leaf});
    hidden_[leaf] = true;
  }
  void show(std::uint32_t leaf) {
    selector_->show(Leaves{leaf}, std::vector{1.0F});
    hidden_[leaf] = false;
  }
  void take_first() {
    if (const std::size_t leaf = first(); visible(leaf)) {
      ASSERT_EQ(selector_->take_first(), leaf);
      hidden_[leaf] = true;
    }
  }

  void check() const {
    double count = 0.0;
    double sum = 0.0;
    for (std::uint32_t leaf = 0; leaf < priorities_.size(); ++leaf) {
      ASSERT_EQ(selector_->all_positive(Leaves{leaf}), visible(leaf)) << "leaf " << leaf;
      count += visible(leaf) ? 1.0 : 0.0;
      sum += visible(leaf) ? double{priorities_[leaf]} : 0.0;
    }
    ASSERT_EQ(selector_->summary().total, count);
    ASSERT_EQ(selector_->sum(0, priorities_.size()), sum);
    ASSERT_EQ(selector_->first_key() > 0, count > 0.0);
    if (highest_) {
      ASSERT_EQ(selector_->summary().max, count > 0.0 ? priorities_[first()] : 0.0F);
    }
  }

 private:
  [[nodiscard]] bool visible(std::size_t leaf) const {
    return priorities_[leaf] >= 0.0F && !hidden_[leaf];
  }
  /// The lowest leaf among those of the best priority.
  [[nodiscard]] std::size_t first() const {
    std::size_t best = 0;
    for (std::size_t leaf = 0; leaf < priorities_.size(); ++leaf) {
      const float more = priorities_[leaf] - priorities_[best];
      if (visible(leaf) && (!visible(best) || (highest_ ? more : -more) > 0.0F)) {
        best = leaf;
      }
    }
    return best;
  }

  std::unique_ptr<SelectorRule> rule_;
  std::unique_ptr<ShardSelector> selector_;
  bool highest_;
  std::vector<float> priorities_;
  std::vector<bool> hidden_;
};

TEST(Heaps, AgreeWithAnArrayUnderRandomCalls) {
  for (const bool highest : {true, false}) {
    const Selector strategy = highest ? Selector(MaxHeap{}) : Selector(MinHeap{});
    for (const std::size_t leaves : {1U, 7U, 8U, 9U, 63U, 64U, 65U, 513U}) {
      SCOPED_TRACE(testing::Message() << "highest " << highest << ", leaves " << leaves);
      test::Rng rng(20260901);
      Heap heap(strategy, highest, leaves);
      for (int step = 0; step < 400; ++step) {
        const auto leaf = static_cast<std::uint32_t>(rng.below(leaves));
        const std::size_t count = 1 + rng.below(leaves - leaf);
        const auto priority = [&] { return static_cast<float>(rng.below(30)); };
        switch (rng.below(6)) {
          case 0: {
            std::vector<float> priorities(count);
            std::generate(priorities.begin(), priorities.end(), priority);
            heap.insert(leaf, priorities);
            break;
          }
          case 1:
            heap.erase(leaf, count);
            break;
          case 2:
            heap.update(leaf, priority());
            break;
          case 3:
            heap.hide(leaf);
            break;
          case 4:
            heap.show(leaf);
            break;
          default:
            ASSERT_NO_FATAL_FAILURE(heap.take_first());
        }
        ASSERT_NO_FATAL_FAILURE(heap.check()) << "step " << step;
      }
    }
  }
}

TEST(Heaps, KnowTheHighestPriorityThatWasLoaded) {
  for (const Selector& strategy : {Selector(MaxHeap{}), Selector(MinHeap{})}) {
    const auto rule = strategy.make_selector_rule();
    const auto saved = rule->make_shard_selector(4);
    saved->insert({0, std::vector{9.0F}}, {});
    saved->erase(0, 1);
    const auto loaded = rule->make_shard_selector(4);
    loaded->set_memory(saved->memory());
    EXPECT_EQ(loaded->summary().highest_seen, 9.0F);
  }
}

}  // namespace
}  // namespace reprise
