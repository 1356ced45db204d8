#pragma once

#include <reprise/raw_priority.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace reprise {

/// Consecutive rows that enter a shard.
struct ItemRun {
  std::uint32_t first = 0;               ///< Leaf of the first row.
  std::span<const float> priorities;     ///< Raw, or a mark: `is_item` tells rows without item.
  const std::uint64_t* order = nullptr;  ///< Per row, rising in the order in which items were
                                         ///< decided; only if `SelectorRule::needs_order`.
};

/// What a shard's half tells of itself.
struct SelectorSummary {
  double total = 0.0;  ///< Sum of weights.
  /// Smallest weight above 0, or a lower bound of it that is above 0 itself: a bound only makes the
  /// weights of `Normalise::ByBuffer` smaller, all by one factor. +infinity if no weight is above
  /// 0.
  float min_positive = 0;
  float max = 0;           ///< Largest weight, as `update` gets them; 0 if there is none.
  float highest_seen = 0;  ///< The largest there ever was.
};

/// Numbers of a shard's half that a checkpoint keeps; what they mean is the selector's own affair.
struct SelectorMemory {
  double first = 0.0;
  double second = 0.0;
};

/// The half of a selector that belongs to one shard: what its leaves weigh, one leaf per row.
///
/// Thread safety: every call runs under the shard's lock, the hot lock of the buffer; so no call
/// throws, allocates, waits, or calls the buffer. Called per run or per batch, never per item.
class ShardSelector {
 public:
  ShardSelector() = default;
  virtual ~ShardSelector() = default;
  ShardSelector(const ShardSelector&) = delete;
  ShardSelector& operator=(const ShardSelector&) = delete;

  /// Called once, before the first run: in a full buffer with long episodes and few writers, rows
  /// fill the first so many leaves, and few beyond. Advice, for memory on huge pages; unless
  /// overridden it does nothing.
  virtual void expect_leaves(std::size_t leaves) noexcept;

  /// A run of rows enters. `elsewhere` summarises the other shards, as of their last unlock, for
  /// initial weights. To be O(run).
  virtual void insert(const ItemRun& run, const SelectorSummary& elsewhere) noexcept = 0;

  /// A run of rows leaves. To be O(run).
  virtual void erase(std::uint32_t first, std::size_t count) noexcept = 0;

  /// To be O(1): asked after every change.
  [[nodiscard]] virtual SelectorSummary summary() const noexcept = 0;

  /// Sum of the weights of a run of rows, in ones. To be O(log leaves) or so.
  [[nodiscard]] virtual double sum(std::uint32_t first, std::size_t count) const noexcept = 0;

  /// What `draw` and `show` count weights in, above 0; all others are counted in ones. It may
  /// change with any call but `draw`, `hide` and `show`.
  [[nodiscard]] virtual double unit() const noexcept { return 1.0; }

  /// Draws one leaf for each target in [0, total / unit), with its weight in units; the leaf on
  /// which a target falls if leaves lie end to end, in any order that stays fixed while nothing
  /// changes. Targets rise, and may be clobbered. Never a leaf of weight 0. Called with total > 0
  /// only.
  ///
  /// Each leaf has exactly one interval, as long as its weight. A mix of two strategies that gives
  /// a leaf an interval in each draws the same leaf at places apart: draws without replacement and
  /// with a limit per item then take it twice, unseen. Put both weights of a leaf side by side
  /// instead, or keep their sum in one tree. Builds with internal checks (preset `dev`) abort.
  virtual void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
                    std::span<float> weights) const noexcept = 0;

  /// Whether the weight of each of these leaves is above 0. Leaves may hold no item. Unless
  /// overridden it asks `sum` of each: O(log leaves) or so per leaf of every update.
  [[nodiscard]] virtual bool all_positive(std::span<const std::uint32_t> leaves) const noexcept;

  /// New weights of items, from `SelectorRule::weigh`; the last of repeated leaves wins.
  virtual void update(std::span<const std::uint32_t> leaves,
                      std::span<const float> weights) noexcept = 0;

  /// Leaves of items weigh 0 until they are shown again, updated or erased. None is repeated.
  /// Unless overridden they are updated to 0. To be overridden, and `show` with it, where a weight
  /// is not what `update` last gave, or where `unit` is not 1.
  virtual void hide(std::span<const std::uint32_t> leaves) noexcept;

  /// Gives hidden leaves back what they weighed, as `draw` said it. Others stay as they are. Unless
  /// overridden they are updated to it.
  virtual void show(std::span<const std::uint32_t> leaves, std::span<const float> weights) noexcept;

  // What a checkpoint keeps of a selector. Unless overridden: what each item weighs, by `sum`, and
  // `update` to it.

  /// What each of these items is to be stored as; only `restore` has to understand it.
  virtual void store(std::span<const std::uint32_t> leaves, std::span<float> stored) const noexcept;
  /// Items that were just inserted get back what was stored of them: finite, at least 0.
  virtual void restore(std::span<const std::uint32_t> leaves,
                       std::span<const float> stored) noexcept;
  /// What it knows beside its items.
  [[nodiscard]] virtual SelectorMemory memory() const noexcept { return {}; }
  /// After all items are restored.
  virtual void set_memory(const SelectorMemory& /*memory*/) noexcept {}
};

/// Calls a function with each shard's half of a selector in turn, under the lock of that shard
/// alone. What `ShardSelector` says of its calls holds for the function, but that it may be
/// O(items) if that is rare: writers never wait for it, samplers do.
using EachHalf = std::function<void(const std::function<void(ShardSelector&)>&)>;

/// The half of a selector that all shards share. Any thread at any time.
class SelectorRule {
 public:
  SelectorRule() = default;
  virtual ~SelectorRule() = default;

  /// Raw priorities, finite and at least 0, to what `ShardSelector::update` gets; with no lock
  /// held. In and out may be the same. Unless overridden, they stay as they are.
  virtual void weigh(std::span<const float> priorities, std::span<float> weights) const noexcept;

  /// Whether `weigh` makes something finite of a priority; others are refused.
  [[nodiscard]] virtual bool weighable(float priority) const noexcept;

  /// Whether a commit has to bring priorities.
  [[nodiscard]] virtual bool needs_caller() const noexcept { return false; }

  /// Whether the halves need `ItemRun::order`: 8 bytes more per row, and a counter that all writers
  /// share.
  [[nodiscard]] virtual bool needs_order() const noexcept { return false; }

  /// Whether weights follow from what is in all shards, so that `tend` is to be called.
  [[nodiscard]] virtual bool tended() const noexcept { return false; }

  /// Called before every draw of a batch by this selector, if `tended`, with no lock held and by
  /// several samplers at once: brings the halves up to date with each other. Draws that run
  /// meanwhile may meet halves of either date, and are told the probabilities that they were really
  /// made with.
  virtual void tend(const EachHalf& each_half) noexcept;

  /// Bytes that a half for so many leaves reserves, its trees included and touched or not, and its
  /// part of what the rule itself keeps per item. For `Stats` alone: reserved_bytes adds them up,
  /// touched_bytes takes the part of the chunks that were used.
  [[nodiscard]] virtual std::size_t bytes(std::size_t leaves) const noexcept = 0;

  /// A half for one shard. It may refer to the rule, which outlives it. May throw.
  [[nodiscard]] virtual std::unique_ptr<ShardSelector> make_shard_half(
      std::size_t leaves) const = 0;

 protected:
  SelectorRule(const SelectorRule&) = default;
  SelectorRule& operator=(const SelectorRule&) = default;
  SelectorRule(SelectorRule&&) = default;
  SelectorRule& operator=(SelectorRule&&) = default;
};

class Selector;

/// A strategy for `Options::selectors`: any copyable type that makes a rule. It may throw
/// `std::invalid_argument` for options that it does not allow; the buffer's constructor then does.
template <class T>
concept SelectorStrategy =
    !std::same_as<T, Selector> && std::copy_constructible<T> && requires(const T& strategy) {
  { strategy.make_selector_rule() } -> std::convertible_to<std::unique_ptr<SelectorRule>>;
};

/// How items are drawn: any strategy, one of `reprise/selectors` or the user's own.
///
/// Thread safety: immutable. Copies share the strategy.
class Selector {
 public:
  template <SelectorStrategy Strategy>
  Selector(Strategy strategy)  // NOLINT(google-explicit-constructor): options convert.
      : strategy_(std::make_shared<const Model<Strategy>>(std::move(strategy))) {}

  /// The strategy, if it is of this type; else nullptr.
  template <class Strategy>
  [[nodiscard]] const Strategy* target() const noexcept {
    const auto* model = dynamic_cast<const Model<Strategy>*>(strategy_.get());
    return model == nullptr ? nullptr : &model->strategy;
  }

  /// One for each buffer.
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const {
    return strategy_->make_selector_rule();
  }

 private:
  struct Concept {
    Concept() = default;
    virtual ~Concept() = default;
    Concept(const Concept&) = delete;
    Concept& operator=(const Concept&) = delete;
    [[nodiscard]] virtual std::unique_ptr<SelectorRule> make_selector_rule() const = 0;
  };
  template <class Strategy>
  struct Model final : Concept {
    explicit Model(Strategy s) : strategy(std::move(s)) {}
    [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const override {
      return strategy.make_selector_rule();
    }
    const Strategy strategy;
  };

  std::shared_ptr<const Concept> strategy_;
};

}  // namespace reprise
