#include "select/ordered_selector.hpp"

#include <reprise/fifo.hpp>
#include <reprise/selectors/heaps.hpp>
#include <reprise/selectors/lifo.hpp>

#include "base/check.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>

namespace reprise {
namespace select {
namespace {

/// Leaves worked at a time, with their keys on the stack.
constexpr std::size_t kBlock = 256;

/// The rule of all shards: priorities stay as they are.
class OrderedRule final : public SelectorRule {
 public:
  OrderedRule(First first, const WeightRule& initial) : first_(first), initial_(initial) {}

  [[nodiscard]] bool needs_caller() const noexcept override { return initial_.needs_caller(); }
  [[nodiscard]] bool in_order() const noexcept override { return true; }
  [[nodiscard]] bool needs_item_numbers() const noexcept override {
    return first_ == First::Oldest || first_ == First::Youngest;
  }
  [[nodiscard]] std::size_t bytes(std::size_t leaves) const noexcept override {
    return tree::KeyTree::bytes(leaves);
  }
  [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(
      std::size_t leaves) const override {
    return std::make_unique<OrderedSelector>(first_, initial_, leaves);
  }

 private:
  const First first_;
  const WeightRule initial_;
};

std::unique_ptr<SelectorRule> by_age(First first) {
  return std::make_unique<OrderedRule>(first, WeightRule(Uniform{}));
}

std::unique_ptr<SelectorRule> by_priority(First first, const char* name, InitialPriority initial,
                                          float constant) {
  const Proportional as_they_are{
      .alpha = 1.0F, .epsilon = 0.0F, .initial = initial, .initial_constant = constant};
  return std::make_unique<OrderedRule>(first, WeightRule(as_they_are, name));
}

/// Non-negative floats compare as their bits do.
std::int64_t rank(float priority) noexcept {
  return std::bit_cast<std::int32_t>(priority + 0.0F);
}

}  // namespace

/// The key is above 0; of equal priorities the lower leaf has the larger key.
std::int64_t OrderedSelector::key_of(float priority, std::uint32_t leaf) const noexcept {
  constexpr std::int64_t kLast = std::numeric_limits<std::int32_t>::max();
  const std::int64_t high = first_ == First::Highest ? rank(priority) + 1 : kLast - rank(priority);
  return high << 32U | static_cast<std::int64_t>(std::numeric_limits<std::uint32_t>::max() - leaf);
}

/// The priority in a key of a heap.
float OrderedSelector::priority_of(std::int64_t key) const noexcept {
  constexpr std::int64_t kLast = std::numeric_limits<std::int32_t>::max();
  const std::int64_t high = key >> 32U;
  return std::bit_cast<float>(
      static_cast<std::int32_t>(first_ == First::Highest ? high - 1 : kLast - high));
}

void OrderedSelector::insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept {
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
      if (!is_item(raw[i])) {
        keys[i] = 0;
      } else if (by_priority()) {
        keys[i] = key_of(weights[i], first + static_cast<std::uint32_t>(i));
      } else {
        const auto age = static_cast<std::int64_t>(run.numbers[done + i]);
        keys[i] =
            first_ == First::Youngest ? age + 1 : std::numeric_limits<std::int64_t>::max() - age;
      }
    }
    tree_.assign_run(first, std::span(keys).first(raw.size()));
  }
}

SelectorSummary OrderedSelector::summary() const noexcept {
  float max = 0.0F;
  if (first_ == First::Highest && tree_.best() != 0) {
    max = priority_of(tree_.best());
  } else if (first_ == First::Lowest) {
    // The highest priority ever seen replaces the maximum, because this tree knows only the lowest.
    max = highest_seen_;
  }
  return {static_cast<double>(tree_.visible()), 1.0F, max, highest_seen_};
}

double OrderedSelector::sum(std::uint32_t first, std::size_t count) const noexcept {
  double sum = 0.0;
  for (std::uint32_t leaf = first; leaf < first + count; ++leaf) {
    if (tree_.is_visible(leaf)) {
      sum += by_priority() ? static_cast<double>(priority_of(tree_.key(leaf))) : 1.0;
    }
  }
  return sum;
}

void OrderedSelector::draw(std::span<double> /*targets*/, std::span<std::uint32_t> leaves,
                           std::span<float> weights) const noexcept {
  REPRISE_ASSERT(false);
  std::fill(leaves.begin(), leaves.end(), tree_.best_leaf());
  std::fill(weights.begin(), weights.end(), 1.0F);
}

bool OrderedSelector::all_positive(std::span<const std::uint32_t> leaves) const noexcept {
  return std::all_of(leaves.begin(), leaves.end(),
                     [this](std::uint32_t leaf) { return tree_.is_visible(leaf); });
}

void OrderedSelector::update(std::span<const std::uint32_t> leaves,
                             std::span<const float> weights) noexcept {
  if (!by_priority()) {
    return;
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    tree_.assign(leaves[i], key_of(weights[i], leaves[i]));
    highest_seen_ = std::max(highest_seen_, weights[i]);
  }
}

void OrderedSelector::hide(std::span<const std::uint32_t> leaves) noexcept {
  for (const std::uint32_t leaf : leaves) {
    tree_.hide(leaf);
  }
}

void OrderedSelector::show(std::span<const std::uint32_t> leaves,
                           std::span<const float> /*weights*/) noexcept {
  for (const std::uint32_t leaf : leaves) {
    tree_.show(leaf);
  }
}

bool OrderedSelector::first_is_before(std::uint64_t number) const noexcept {
  return first_ != First::Oldest ||
         static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() - first_key()) <
             number;
}

std::uint32_t OrderedSelector::take_first() noexcept {
  const std::uint32_t leaf = tree_.best_leaf();
  tree_.hide(leaf);
  return leaf;
}

}  // namespace select

std::unique_ptr<SelectorRule> Fifo::make_selector_rule() const {
  return select::by_age(select::First::Oldest);
}

std::unique_ptr<SelectorRule> Lifo::make_selector_rule() const {
  return select::by_age(select::First::Youngest);
}

std::unique_ptr<SelectorRule> MaxHeap::make_selector_rule() const {
  return select::by_priority(select::First::Highest, "MaxHeap", initial, initial_constant);
}

std::unique_ptr<SelectorRule> MinHeap::make_selector_rule() const {
  return select::by_priority(select::First::Lowest, "MinHeap", initial, initial_constant);
}

}  // namespace reprise
