#include <reprise/selectors/fifo.hpp>
#include <reprise/selectors/heaps.hpp>
#include <reprise/selectors/lifo.hpp>

#include "base/check.hpp"
#include "base/describe.hpp"
#include "base/normal.hpp"
#include "select/weight_rule.hpp"
#include "tree/largest_tree.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>

namespace reprise {
namespace select {
namespace {

/// Which item comes first.
enum class First : std::uint8_t { Oldest, Youngest, Highest, Lowest };

/// The bits of a priority: non-negative floats compare as their bits do. Adding 0 makes 0 of -0.
std::int64_t rank(float priority) noexcept {
  return std::bit_cast<std::int32_t>(priority + 0.0F);
}

/// The items of one shard of a selector that takes the first item instead of drawing by weight.
///
/// Each item has a key above 0. Keys are comparable between shards, and the largest comes first. A
/// leaf without an item has 0. The key of a hidden item is stored as its complement, below 0.
class OrderedSelector final : public ShardSelector {
 public:
  /// How many leaves are handled at a time, with their keys on the stack.
  static constexpr std::size_t kBlock = 256;

  OrderedSelector(First first, const WeightRule& rule, std::size_t leaves)
      : first_(first), rule_(rule), keys_(leaves) {}

  void expect_leaves(std::size_t leaves) noexcept override { keys_.expect_leaves(leaves); }

  void insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept override {
    // Each block is written before it is read.
    std::array<float, kBlock> weights;      // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::array<std::int64_t, kBlock> keys;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    highest_seen_ = std::max(highest_seen_, other_shards.highest_seen);
    float in_buffer = std::max(summary().max, other_shards.max);
    for (std::size_t done = 0; done < run.priorities.size(); done += kBlock) {
      const auto raw = run.priorities.subspan(done, std::min(kBlock, run.priorities.size() - done));
      const auto first = run.first + static_cast<std::uint32_t>(done);
      rule_.weigh_run(raw, std::span(weights).first(raw.size()), in_buffer, highest_seen_);
      for (std::size_t i = 0; i < raw.size(); ++i) {
        keys[i] = 0;
        if (is_item(raw[i])) {
          keys[i] = by_priority() ? key_of(weights[i], first + static_cast<std::uint32_t>(i))
                                  : key_of(run.numbers[done + i]);
          ++visible_;
        }
      }
      keys_.assign_run(first, std::span(keys).first(raw.size()));
    }
  }

  void erase(std::uint32_t first, std::size_t count) noexcept override {
    for (std::size_t leaf = first; leaf < first + count; ++leaf) {
      visible_ -= keys_[leaf] > 0 ? 1U : 0U;
    }
    keys_.clear_run(first, count);
  }

  /// The total is the number of items that are not hidden.
  [[nodiscard]] SelectorSummary summary() const noexcept override {
    float max = 0.0F;
    if (first_ == First::Highest && first_key() != 0) {
      max = priority_of(first_key());
    } else if (first_ == First::Lowest) {
      // This selector knows only its lowest priority, so the highest ever seen replaces the
      // maximum.
      max = highest_seen_;
    }
    return {static_cast<double>(visible_), 1.0F, max, highest_seen_};
  }

  /// Number of items of the run; for heaps the sum of their priorities. O(run).
  [[nodiscard]] double sum(std::uint32_t first, std::size_t count) const noexcept override {
    double sum = 0.0;
    for (std::size_t leaf = first; leaf < first + count; ++leaf) {
      if (keys_[leaf] > 0) {
        sum += by_priority() ? static_cast<double>(priority_of(keys_[leaf])) : 1.0;
      }
    }
    return sum;
  }

  /// Never called, because nothing is drawn by weight here.
  void draw(std::span<double> /*targets*/, std::span<std::uint32_t> /*leaves*/,
            std::span<float> /*weights*/) const noexcept override {
    REPRISE_ASSERT(false);
  }

  [[nodiscard]] bool all_positive(std::span<const std::uint32_t> leaves) const noexcept override {
    return std::ranges::all_of(leaves, [this](std::uint32_t leaf) { return keys_[leaf] > 0; });
  }

  void update(std::span<const std::uint32_t> leaves,
              std::span<const float> weights) noexcept override {
    for (std::size_t i = 0; by_priority() && i < leaves.size(); ++i) {
      // Checkpoints of 0.2 have denormal priorities.
      const float priority = base::normal_or_0(weights[i]);
      assign(leaves[i], key_of(priority, leaves[i]));
      highest_seen_ = std::max(highest_seen_, priority);
    }
  }

  void hide(std::span<const std::uint32_t> leaves) noexcept override {
    for (const std::uint32_t leaf : leaves) {
      if (keys_[leaf] > 0) {
        assign(leaf, ~keys_[leaf]);
      }
    }
  }
  void show(std::span<const std::uint32_t> leaves,
            std::span<const float> /*weights*/) noexcept override {
    for (const std::uint32_t leaf : leaves) {
      if (keys_[leaf] < 0) {
        assign(leaf, ~keys_[leaf]);
      }
    }
  }

  [[nodiscard]] SelectorMemory memory() const noexcept override {
    return {0.0, static_cast<double>(highest_seen_)};
  }
  void set_memory(const SelectorMemory& memory) noexcept override {
    highest_seen_ = highest_seen_of(memory.second);
  }

  [[nodiscard]] std::int64_t first_key() const noexcept override { return keys_.largest(); }
  /// Always true in other orders than `Oldest`: they draw items that arrive during a draw, too.
  [[nodiscard]] bool first_is_before(std::uint64_t number) const noexcept override {
    return first_ != First::Oldest || first_key() > key_of(number);
  }
  std::uint32_t take_first() noexcept override {
    --visible_;
    return keys_.replace_largest(~first_key());
  }

 private:
  /// Above every `rank`: less a rank, it falls as priorities rise.
  static constexpr std::int64_t kAboveRanks = std::numeric_limits<std::int32_t>::max();

  [[nodiscard]] bool by_priority() const noexcept {
    return first_ == First::Highest || first_ == First::Lowest;
  }
  /// The key of a heap: of equal priorities the lower leaf has the larger key.
  [[nodiscard]] std::int64_t key_of(float priority, std::uint32_t leaf) const noexcept {
    const std::int64_t high =
        first_ == First::Highest ? rank(priority) + 1 : kAboveRanks - rank(priority);
    return high << 32U | std::int64_t{std::numeric_limits<std::uint32_t>::max() - leaf};
  }
  [[nodiscard]] float priority_of(std::int64_t key) const noexcept {
    const std::int64_t high = key >> 32U;
    return std::bit_cast<float>(
        static_cast<std::int32_t>(first_ == First::Highest ? high - 1 : kAboveRanks - high));
  }
  /// The key of an item by its number.
  [[nodiscard]] std::int64_t key_of(std::uint64_t number) const noexcept {
    const auto age = static_cast<std::int64_t>(number);
    return first_ == First::Youngest ? age + 1 : std::numeric_limits<std::int64_t>::max() - age;
  }
  void assign(std::uint32_t leaf, std::int64_t key) noexcept {
    visible_ += key > 0 ? 1U : 0U;
    visible_ -= keys_[leaf] > 0 ? 1U : 0U;
    keys_.assign(leaf, key);
  }

  const First first_;
  const WeightRule rule_;  ///< Computes initial priorities; given ones it leaves as they are.
  tree::LargestTree<std::int64_t> keys_;
  std::size_t visible_ = 0;  ///< Leaves whose key is above 0.
  float highest_seen_ = 0.0F;
};

/// The rule of selectors that draw in order. Weights are the raw priorities.
class OrderedRule final : public SelectorRule {
 public:
  OrderedRule(First first, const WeightRule& initial) : first_(first), initial_(initial) {}

  [[nodiscard]] bool needs_caller() const noexcept override { return initial_.needs_caller(); }
  [[nodiscard]] Law law() const noexcept override { return Law::InOrder; }
  [[nodiscard]] bool needs_item_numbers() const noexcept override {
    return first_ == First::Oldest || first_ == First::Youngest;
  }
  [[nodiscard]] std::size_t bytes(std::size_t leaves) const noexcept override {
    return tree::LargestTree<std::int64_t>::bytes(leaves);
  }
  [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(
      std::size_t leaves) const override {
    return std::make_unique<OrderedSelector>(first_, initial_, leaves);
  }

 private:
  const First first_;
  const WeightRule initial_;
};

std::unique_ptr<SelectorRule> rule_by_age(First first) {
  return std::make_unique<OrderedRule>(first, WeightRule(Uniform{}));
}

std::unique_ptr<SelectorRule> rule_by_priority(First first, const char* name,
                                               InitialPriority initial, float constant) {
  const Proportional weighs_as_given{
      .alpha = 1.0F, .epsilon = 0.0F, .initial = initial, .initial_constant = constant};
  return std::make_unique<OrderedRule>(first, WeightRule(weighs_as_given, name));
}

}  // namespace
}  // namespace select

std::unique_ptr<SelectorRule> Fifo::make_selector_rule() const {
  return select::rule_by_age(select::First::Oldest);
}

/// The description of Fifo, as a selector and as a remover.
constexpr const char* kFifo =
    R"(First in, first out. As a remover: evicts the oldest step for each step beyond the capacity,
but first items that max_times_sampled or max_staleness keeps from draws. As a selector: draws the
items that were decided first, each once per batch; with max_times_sampled=1 a queue.)";

StrategyKind<Selector> Fifo::selector_kind() {
  return base::describe<Selector, Fifo>("Fifo", kFifo);
}

StrategyKind<Remover> Fifo::remover_kind() {
  return base::describe<Remover, Fifo>("Fifo", kFifo);
}

std::unique_ptr<SelectorRule> Lifo::make_selector_rule() const {
  return select::rule_by_age(select::First::Youngest);
}

StrategyKind<Selector> Lifo::selector_kind() {
  return base::describe<Selector, Lifo>("Lifo",
                                        "Draws the items that were decided last, youngest first.");
}

std::unique_ptr<SelectorRule> MaxHeap::make_selector_rule() const {
  selector_kind().check(*this);
  return select::rule_by_priority(select::First::Highest, "MaxHeap", initial, initial_constant);
}

StrategyKind<Selector> MaxHeap::selector_kind() {
  return base::describe<Selector, MaxHeap>(
      "MaxHeap",
      "Draws the items of highest priority, highest first. `initial` as of Proportional.",
      base::option<&MaxHeap::initial>("initial", select::kInitials),
      base::option<&MaxHeap::initial_constant>("initial_constant"));
}

std::unique_ptr<SelectorRule> MinHeap::make_selector_rule() const {
  selector_kind().check(*this);
  return select::rule_by_priority(select::First::Lowest, "MinHeap", initial, initial_constant);
}

StrategyKind<Selector> MinHeap::selector_kind() {
  return base::describe<Selector, MinHeap>(
      "MinHeap",
      "Draws the items of lowest priority, lowest first. `initial` as of Proportional, but for\n"
      "\"maximum_in_buffer\", as it knows the lowest priority in the buffer alone.",
      base::option<&MinHeap::initial>("initial", select::kInitials, InitialPriority::HighestSeen),
      base::option<&MinHeap::initial_constant>("initial_constant"));
}

}  // namespace reprise
