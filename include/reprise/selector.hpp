#pragma once

#include <reprise/item.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace reprise {

/// Consecutive rows that enter a shard.
struct ItemRun {
  std::uint32_t first = 0;  ///< Leaf (number in the shard) of the first row.
  /// A raw priority per row, or a number below 0: kInitialPriority for an item without a priority,
  /// another number for a row without an item (`is_item`).
  std::span<const float> priorities;
  const std::uint64_t* numbers = nullptr;  ///< One per row, rising in the order in which items were
                                           ///< decided; null unless the rule `needs_item_numbers`.
};

/// The state of a shard selector, for other shards and for samplers.
struct SelectorSummary {
  double total = 0.0;  ///< Sum of weights.
  /// Smallest weight above 0, or a lower bound of it above 0, which makes all importance weights of
  /// `Normalise::ByBuffer` smaller by one factor. +infinity if no weight is above 0.
  float min_positive = 0;
  float max = 0;           ///< Largest weight, in the units of `update`; 0 if there is none.
  float highest_seen = 0;  ///< The largest weight ever.
};

/// Numbers of a shard selector that a checkpoint keeps; only the selector knows their meaning.
struct SelectorMemory {
  double first = 0.0;   ///< One number.
  double second = 0.0;  ///< Another.
};

/// The part of a selector that belongs to one shard: the weights of its leaves, one leaf per row.
///
/// Thread safety: every call runs under the shard's lock, the hot lock of the buffer, so no call
/// may throw, allocate, wait, or call the buffer. Calls come per run or per batch, never per item.
class ShardSelector {
 public:
  ShardSelector() = default;
  virtual ~ShardSelector() = default;
  ShardSelector(const ShardSelector&) = delete;
  ShardSelector& operator=(const ShardSelector&) = delete;

  /// Called once, before the first `insert`. In a full buffer with long episodes and few writers,
  /// rows fill the first `leaves` leaves and few beyond, so the selector may ask for huge pages
  /// there. The default does nothing.
  virtual void expect_leaves(std::size_t leaves) noexcept;

  /// A run of consecutive rows enters the shard. `other_shards` summarises the other shards, as of
  /// their last unlock, for initial weights. Should be O(rows).
  virtual void insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept = 0;

  /// A run of consecutive rows leaves the shard. Should be O(rows).
  virtual void erase(std::uint32_t first, std::size_t count) noexcept = 0;

  /// The state of this shard selector. Called after every change, so it should be O(1).
  [[nodiscard]] virtual SelectorSummary summary() const noexcept = 0;

  /// Sum of the weights of a run of rows. Should be O(log leaves) or so.
  [[nodiscard]] virtual double sum(std::uint32_t first, std::size_t count) const noexcept = 0;

  /// Draws one leaf for each target in [0, total), with its weight: the leaf on which the target
  /// falls if the leaves lie end to end, in an order that stays fixed while nothing changes. The
  /// targets are sorted, and may be overwritten. Must never give a leaf of weight 0. Called only
  /// with total > 0.
  ///
  /// Each leaf must have exactly one interval, as long as its weight. A mix of two strategies that
  /// gives a leaf two intervals draws the same leaf at distant places: draws without replacement
  /// and with a limit per item then take it twice without noticing. Put both weights of a leaf side
  /// by side instead, or keep their sum in one tree. Builds with internal checks (preset `dev`)
  /// abort.
  virtual void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
                    std::span<float> weights) const noexcept = 0;

  /// Whether the weight of each of these leaves is above 0. Leaves may hold no item. The default
  /// asks `sum` of each: O(log leaves) or so per leaf of every update.
  [[nodiscard]] virtual bool all_positive(std::span<const std::uint32_t> leaves) const noexcept;

  /// New weights of items, from `SelectorRule::weigh`; the last of repeated leaves counts.
  virtual void update(std::span<const std::uint32_t> leaves,
                      std::span<const float> weights) noexcept = 0;

  /// Makes these leaves weigh 0 until they are shown again, updated or erased. Each leaf has an
  /// item, and no leaf is repeated. The default calls `show` with weights of 0. Override both
  /// `hide` and `show` if a weight is not what `update` got last.
  virtual void hide(std::span<const std::uint32_t> leaves) noexcept;

  /// Gives hidden leaves their weights back, as `draw` reported them. Other leaves stay as they
  /// are. The default calls `update`.
  virtual void show(std::span<const std::uint32_t> leaves, std::span<const float> weights) noexcept;

  // An ordered selector (`Law::InOrder`) overrides the next three functions, and with them
  // `hide` and `show`. Its `draw` is never called.

  /// The sort key of the first item that is not hidden; 0 if all are hidden. Sort keys are above 0
  /// and comparable between shards: the shard with the largest one gives its item. Should be O(1).
  [[nodiscard]] virtual std::int64_t first_key() const noexcept { return 0; }
  /// Hides the first item and returns its leaf. Called only if `first_key` is above 0.
  virtual std::uint32_t take_first() noexcept { return 0; }
  /// Whether the first item was decided before the item with this number. A selector that draws by
  /// item numbers has to override this, so that items that arrive during a draw wait for the next
  /// draw.
  [[nodiscard]] virtual bool first_is_before(std::uint64_t /*number*/) const noexcept {
    return true;
  }

  // Changes of all weights. The locks of all shards are held. May be O(items).

  /// Called after `SelectorRule::set_alpha`: gives each item the weight that it has with the new
  /// exponent. Returns false, with nothing changed, if this selector cannot do that; then
  /// `SelectorHandle::set_alpha` sets the rule's former exponent again and throws. All shard
  /// selectors of a rule have to answer alike.
  [[nodiscard]] virtual bool set_alpha(float /*alpha*/) noexcept { return false; }
  /// Multiplies every weight by a factor in (0, 1]. Returns false, with nothing changed, if that
  /// means nothing for this selector; `SelectorHandle::decay` then throws. All shard selectors of a
  /// rule have to answer alike.
  virtual bool decay(float /*factor*/) noexcept { return false; }

  // The next calls save and load a selector. By default the weight of each item, read by `sum`, is
  // saved, and `update` sets it again.

  /// Writes what a checkpoint keeps of each of these items; only `restore` has to understand it.
  virtual void store(std::span<const std::uint32_t> leaves, std::span<float> stored) const noexcept;
  /// Gives items that were just inserted what `store` returned for them: finite, at least 0.
  virtual void restore(std::span<const std::uint32_t> leaves,
                       std::span<const float> stored) noexcept;
  /// State of the selector apart from its items.
  [[nodiscard]] virtual SelectorMemory memory() const noexcept { return {}; }
  /// Called after all items are restored.
  virtual void set_memory(const SelectorMemory& /*memory*/) noexcept {}
};

/// Calls a function with the shard selector of each shard in turn, under the lock of that shard
/// only. The function has to obey the rules of `ShardSelector`'s calls, but may take O(items) if
/// that is rare: samplers wait for the call, writers never do.
using EachShardSelector = std::function<void(const std::function<void(ShardSelector&)>&)>;

/// How a selector draws. Shards in several processes, and buffers that draw as one
/// (`MixedSampler`), need `ByWeight`.
enum class Law : std::uint8_t {
  ByWeight,  ///< By the weight of each item alone, so that the sums of shards add up.
  ByRank,    ///< By the rank of each item's priority among all.
  ByAge,     ///< By the number of items that were decided after it.
  Mixed,     ///< By two distributions over all items, as `Mixture` draws.
  /// Items one after the other, by `ShardSelector::take_first`, each at most once per batch. The
  /// locks of all shards are held, so that the shards' first items are compared at one moment.
  InOrder,
};

/// The part of a selector that all shards share. Any thread may call it at any time.
class SelectorRule {
 public:
  SelectorRule() = default;
  virtual ~SelectorRule() = default;

  /// Turns raw priorities, finite, at least 0 and not denormal, into the weights that
  /// `ShardSelector::update` gets: finite, at least 0, and not falling while priorities rise. A
  /// denormal weight then counts as 2^-126. May be called under a shard's lock: it must not wait,
  /// allocate memory or call the buffer. `weights` may be the memory of `priorities`. The default
  /// weighs each item by its priority.
  virtual void weigh(std::span<const float> priorities, std::span<float> weights) const noexcept;

  /// Whether `weigh` gives a finite weight for a priority; other priorities are refused.
  [[nodiscard]] virtual bool weighable(float priority) const noexcept;

  /// Whether a commit has to give a priority for each item that it completes.
  [[nodiscard]] virtual bool needs_caller() const noexcept { return false; }

  /// Whether shard selectors need the item numbers of `ItemRun`: 8 bytes more per row, and a
  /// counter that all writers share.
  [[nodiscard]] virtual bool needs_item_numbers() const noexcept { return false; }

  /// How items are drawn.
  [[nodiscard]] virtual Law law() const noexcept { return Law::ByWeight; }

  /// The exponent of priorities; nothing if `SelectorHandle::set_alpha` cannot change it.
  [[nodiscard]] virtual std::optional<float> alpha() const noexcept { return std::nullopt; }
  /// Throws `std::invalid_argument` for an exponent that is not allowed. The default allows 0 to 8.
  virtual void check_alpha(float alpha) const;
  /// Sets the exponent, which `alpha` has to return from then on; the present one is above 0.
  /// Returns false, with nothing changed, if the exponent cannot be changed;
  /// `SelectorHandle::set_alpha` then throws. Called with the locks of all shards held, before
  /// `ShardSelector::set_alpha` of each shard. `weigh` and `alpha` may run at the same time.
  [[nodiscard]] virtual bool set_alpha(float /*alpha*/) noexcept { return false; }

  /// Whether weights depend on the items of all shards, so that `refresh` is called.
  [[nodiscard]] virtual bool needs_refresh() const noexcept { return false; }

  /// Brings the shard selectors up to date with each other. Called, if `needs_refresh`, before
  /// every draw of a batch by this selector, without a lock and by several samplers at once. Draws
  /// at the same time may meet old and new shard selectors; they report the probabilities with
  /// which they really drew.
  virtual void refresh(const EachShardSelector& each_shard_selector) noexcept;

  /// Bytes that a shard selector for `leaves` leaves reserves, touched or not, its trees included,
  /// and its part of what the rule itself keeps per item. Only for `Stats`: reserved_bytes adds the
  /// numbers up, touched_bytes counts the share of the chunks that were used. The default is right
  /// for the default of `make_shard_selector`.
  [[nodiscard]] virtual std::size_t bytes(std::size_t leaves) const noexcept;

  /// Makes the shard selector of one shard, which may refer to the rule. The rule outlives it. May
  /// throw.
  ///
  /// The default draws each item with probability in proportion to what `weigh` makes of its
  /// priority. An item without a priority weighs as much as the heaviest in the buffer, or as one
  /// of priority 1 if there is none. `SelectorHandle::decay` works; after `set_alpha` weights are
  /// raised to new / old alpha.
  [[nodiscard]] virtual std::unique_ptr<ShardSelector> make_shard_selector(
      std::size_t leaves) const;

 protected:
  SelectorRule(const SelectorRule&) = default;
  SelectorRule& operator=(const SelectorRule&) = default;
  SelectorRule(SelectorRule&&) = default;
  SelectorRule& operator=(SelectorRule&&) = default;
};

class Selector;
template <class Family>
class StrategyKind;

/// A strategy for `Options::selectors`: any copyable type that makes a rule. `make_selector_rule`
/// may throw `std::invalid_argument` for options that are not allowed, which the buffer's
/// constructor passes on.
template <class T>
concept SelectorStrategy =
    !std::same_as<T, Selector> && std::copy_constructible<T> && requires(const T& strategy) {
  { strategy.make_selector_rule() } -> std::convertible_to<std::unique_ptr<SelectorRule>>;
};

/// Decides how items are drawn: any strategy, one of `reprise/selectors` or your own.
///
/// Thread safety: immutable. Copies share the strategy.
class Selector {
 public:
  /// Takes a copy of a strategy.
  template <SelectorStrategy Strategy>
  Selector(Strategy strategy)  // NOLINT(google-explicit-constructor): options convert.
      : strategy_(std::make_shared<const Model<Strategy>>(std::move(strategy))) {}

  /// The strategy, if it is of this type; else nullptr.
  template <class Strategy>
  [[nodiscard]] const Strategy* target() const noexcept {
    const auto* model = dynamic_cast<const Model<Strategy>*>(strategy_.get());
    return model == nullptr ? nullptr : &model->strategy;
  }

  /// Makes a rule; each buffer has its own.
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
