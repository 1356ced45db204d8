#pragma once

#include "conformance_cases.hpp"
#include "testing/test.hpp"
#include "window_rule.hpp"
#include "world.hpp"

#include <compare>

namespace reprise::test {

/// An item, named by its first step.
struct ItemId {
  std::uint64_t episode = 0;
  std::uint64_t position = 0;

  friend auto operator<=>(const ItemId&, const ItemId&) = default;
};

/// Makes random calls to a buffer in one thread, and compares it with a simple model: the rules for
/// every combination of selector, remover, window and limiter. The model does not predict which
/// items a remover evicts, so after every call it looks which items are still in the buffer.
class Conformance {
 public:
  /// The parts under test; the seed decides the other options.
  struct Setting {
    NamedSelector selector;
    Remover remover;
    Window window;
    RateLimiter limiter;
    Storage storage = Memory{};
    World::Fields fields = {};
    double end_share = 0.12;  ///< Share of the appended steps that end an episode.
  };

  Conformance(const Setting& setting, std::uint64_t seed);

  /// Makes random calls, each followed by checks of everything, and `close` at the end.
  void run(std::size_t calls);

 private:
  struct Item {
    std::uint32_t length = 0;
    bool terminated = false;  ///< Whether the episode terminates with the item's last step.
    std::vector<StreamStep> steps = {};  ///< The item's steps, if it is of a stream.
    float priority = 1.0F;
    std::int64_t version = 0;  ///< The version of the item's first step.
    std::uint64_t order = 0;   ///< The number of items decided before this one.
    std::uint32_t draws = 0;
    /// The item had weight 0 in a draw, so the buffer may or may not count it as fresh.
    bool passed_over = false;
    bool gone = false;
    bool removed = false;
    std::optional<ItemKey> key;  ///< Set once `check_buffer` has found the item.
  };
  struct Episode {
    std::uint64_t id = 0;
    std::uint64_t steps = 0;
  };
  /// The step that the limiter holds: how it ends, and its priorities.
  struct Held {
    End end = End::Continue;
    std::vector<float> priorities;
  };
  struct Actor {
    std::optional<Writer> writer;
    std::optional<Episode> episode;
    std::optional<Held> held;
    std::vector<StreamStep> stream;  ///< All steps that this writer has committed.

    /// The number of steps of the stream, or else of the open episode.
    [[nodiscard]] std::size_t steps(bool streams) const {
      return streams ? stream.size() : episode ? episode->steps : 0;
    }
    void count(End end) {
      stream.push_back({World::name_of(episode->id, episode->steps), end});
      ++episode->steps;
    }
  };
  using Items = std::map<ItemId, Item>;

  [[nodiscard]] Options random_options();
  [[nodiscard]] float random_priority() { return static_cast<float>(rng_.below(7)); }

  void append(Actor& actor);
  void write_step(Actor& actor);
  void begin(Actor& actor);
  void destroy_writer(Actor& actor);
  void check_hold();
  /// The lengths of the items that the actor's episode or stream has after this end, or when it is
  /// cut off (none), and that are not in `items_`.
  [[nodiscard]] std::map<ItemId, std::uint32_t> new_items(const Actor& actor,
                                                          std::optional<End> end) const;
  /// Adds the items whose windows a commit completes, or without an end those of an episode that no
  /// commit ends. Without priorities they get the initial one.
  void decide(const Actor& actor, std::optional<End> end,
              const std::vector<float>& priorities = {});
  void cut_off(const Actor& actor) { decide(actor, std::nullopt); }
  [[nodiscard]] bool streams() const { return WindowRule(setting_.window).streams(); }
  [[nodiscard]] float initial_priority() const;
  /// The weight of an item with this priority, for a selector that draws by priority.
  [[nodiscard]] double weight(float priority) const;

  void sample();
  /// Whether a batch must come (true) or must not come (false); no value if that depends on inserts
  /// that writers have booked and not used.
  [[nodiscard]] std::optional<bool> is_batch_expected(std::size_t n, Draws draws) const;
  void check_batch(const SampleResult& result, const SampleOptions& how);
  void check_probabilities(const Batch& batch, const std::vector<ItemId>& ids, std::size_t fresh,
                           const SampleOptions& how);
  void check_probabilities_without_replacement(const Batch& batch, const std::vector<ItemId>& ids);
  void check_shares(const Batch& batch, const std::vector<ItemId>& ids, std::size_t fresh,
                    const SampleOptions& how);
  /// The relative error that a probability may have.
  [[nodiscard]] double tolerance() const {
    return is_rounded(draw_rule_) || setting_.selector.weight_rule.epsilon > 0.0F ? 1e-6 : 1e-12;
  }
  /// The weights to which the items' probabilities are proportional.
  [[nodiscard]] std::map<ItemId, double> weights() const;
  /// The weight that a mixture gives an item of priority 0; infinity if the selector is no mixture,
  /// or if all priorities are 0.
  [[nodiscard]] double min_mixture_weight(const std::map<ItemId, double>& all) const {
    const auto weighs = [&](const auto& each) { return items_.at(each.first).priority > 0.0F; };
    return draw_rule_ == DrawRule::Mixed && std::ranges::any_of(all, weighs)
               ? kMixedUniform / static_cast<double>(all.size())
               : std::numeric_limits<double>::infinity();
  }
  /// The weight of an item, for selectors where it does not depend on other items.
  [[nodiscard]] double weight_of(const Item& item) const {
    switch (draw_rule_) {
      case DrawRule::ByPriority:
        return weight(item.priority);
      case DrawRule::Clipped:
        return weight(std::max(item.priority, 1.0F));
      case DrawRule::ByAge:
        return std::pow(1.0 - double{kRecencyP},
                        static_cast<double>(next_item_number_ - 1 - item.order));
      default:
        return 1.0;
    }
  }

  // Defined in conformance_order.cpp, for draws that are not by weight:
  void check_order(const std::vector<ItemId>& ids) const;
  void check_eviction_order() const;
  /// A state in which the sampler's pass over all items (`Draws::Epoch`) may be.
  struct Pass {
    /// Items that the pass has not drawn yet. The flag says whether the item weighed 0 in a draw of
    /// the pass, which may then have left the item out.
    std::map<ItemId, bool> left = {};
    std::size_t size = 0;      ///< Number of items at the beginning of the pass.
    bool drawn = false;        ///< Whether the pass has drawn an item.
    std::uint64_t before = 0;  ///< Passes completed before this one.

    friend bool operator==(const Pass&, const Pass&) = default;
  };
  /// Whether the sampler refuses draws of this kind with the selector and the options of the
  /// buffer.
  [[nodiscard]] bool refused(Draws draws) const {
    const bool decided = in_order(draw_rule_) || options_.max_times_sampled != 0;
    return (draws == Draws::Epoch && decided) ||
           (fresh_share_ > 0.0F && (draws == Draws::Epoch || draws == Draws::WithoutReplacement));
  }
  void check_fresh(const Batch& batch, const std::vector<ItemId>& ids, std::size_t fresh);
  void pass_over(const std::map<ItemId, double>& weights);
  [[nodiscard]] Pass next_pass(const Pass& pass) const;
  void check_pass(const Batch& batch, const std::vector<ItemId>& ids);
  /// Drops the states of `passes_` that contradict the number of passes in the status.
  void check_passes(const SampleStatus& status);
  void end_pass();

  // Defined in conformance_reads.cpp, with the calls that name items by key:
  void check_item(const Batch& batch, std::size_t place, const ItemId& id,
                  const SampleOptions& how) const;
  void check_place(const Batch& batch, std::size_t place, const ItemId& id) const;
  void check_priorities(const std::vector<ItemKey>& keys, const std::vector<ItemId>& ids) const;
  void gather();
  void relabel(const std::vector<ItemKey>& keys, const std::vector<ItemId>& ids);
  void replace();
  void reset();
  void raise_version();
  void clear();
  void remove();

  // Defined in conformance_looks.cpp:
  void update();
  void check_buffer();
  void close();

  [[nodiscard]] std::uint64_t resident_steps() const {
    return std::min<std::uint64_t>(decided_steps_ - cleared_steps_, options_.capacity_steps);
  }
  [[nodiscard]] bool exhausted(const Item& item) const {
    return options_.max_times_sampled != 0 && item.draws >= options_.max_times_sampled;
  }
  /// Whether the policy's version is more than `max_staleness` above the item's.
  [[nodiscard]] bool outdated(const Item& item) const {
    return options_.max_staleness &&
           item.version + static_cast<std::int64_t>(*options_.max_staleness) < version_;
  }
  [[nodiscard]] bool can_be_drawn(const Item& item) const {
    return !item.gone && !exhausted(item) && !outdated(item);
  }
  /// Items in the buffer that are neither exhausted nor outdated, in the order of their decision.
  [[nodiscard]] std::vector<ItemId> drawable() const;

  const Setting setting_;
  const DrawRule draw_rule_;
  Rng rng_;
  World world_;
  std::size_t writer_count_;
  Options options_;
  const float fresh_share_;  ///< `SamplerOptions::fresh`.
  ReplayBuffer replay_;
  Sampler sampler_;
  std::vector<Actor> actors_;

  Items items_;
  std::uint64_t decided_steps_ = 0;
  std::uint64_t cleared_steps_ = 0;  ///< Steps decided before the last `clear`.
  std::uint64_t committed_ = 0;
  std::uint64_t next_item_number_ = 0;
  float highest_seen_ = 0.0F;
  std::uint64_t sampled_ = 0;
  std::uint64_t applied_ = 0;
  std::uint64_t stale_ = 0;
  std::int64_t version_ = 0;          ///< The policy's version.
  std::int64_t newest_version_ = 0;   ///< The highest version of an item.
  std::uint64_t outdated_count_ = 0;  ///< Items that became outdated.
  std::vector<Pass> passes_ = {Pass{}};
};

}  // namespace reprise::test
