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

/// A buffer under random calls in one thread, beside a simple model: what every combination of
/// selector, remover, window and limiter has to keep to. The model does not predict which items a
/// remover takes, so after every call each item is looked for.
class Conformance {
 public:
  /// The parts under test; the seed draws the other options.
  struct Setting {
    NamedSelector selector;
    Remover remover;
    Window window;
    RateLimiter limiter;
    Storage storage = Memory{};
    World::Fields fields = {};
    double ends = 0.12;  ///< Share of the appended steps that end an episode.
  };

  Conformance(const Setting& setting, std::uint64_t seed);

  /// Makes random calls, each followed by checks of everything, and `close` at the end.
  void run(std::size_t calls);

 private:
  struct Item {
    std::uint32_t length = 0;
    bool terminated = false;  ///< Whether the episode terminates with the item's last step.
    std::vector<StreamStep> steps = {};  ///< Of a stream.
    float priority = 1.0F;
    std::int64_t version = 0;  ///< That of its first step.
    std::uint64_t order = 0;   ///< The item's place among all decided items.
    std::uint32_t draws = 0;
    bool passed_over = false;  ///< The item weighed 0 in a draw, so it may not be fresh any more.
    bool gone = false;
    bool removed = false;
    std::optional<ItemKey> key;  ///< Set once the item was found.
  };
  struct Episode {
    std::uint64_t id = 0;
    std::uint64_t steps = 0;
  };
  /// The step that the limiter holds, and how it ends.
  struct Held {
    End end = End::Continue;
    std::vector<float> priorities;
  };
  struct Actor {
    std::optional<Writer> writer;
    std::optional<Episode> episode;
    std::optional<Held> held;
    std::vector<StreamStep> stream;  ///< All steps of this writer.

    /// Steps of the stream, or else of the episode under way.
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
  void leave(Actor& actor);
  void check_hold();
  /// The lengths of the items that the actor's episode or stream has now and did not have before.
  [[nodiscard]] std::map<ItemId, std::uint32_t> news(const Actor& actor, std::optional<End> end,
                                                     bool cut_off) const;
  void decide(const Actor& actor, std::optional<End> end, bool cut_off,
              const std::vector<float>& priorities);
  [[nodiscard]] bool streams() const { return WindowRule(setting_.window).streams(); }
  [[nodiscard]] float initial_priority() const;
  /// The weight of an item with this priority, for a selector that draws by priority.
  [[nodiscard]] double weight(float priority) const;

  void sample();
  /// Whether a batch has to come or must not; none if it depends on unused bookings of writers.
  [[nodiscard]] std::optional<bool> expect_batch(std::size_t n, Draws draws) const;
  void check_batch(const SampleResult& result, const SampleOptions& how);
  void check_chances(const Batch& batch, const std::vector<ItemId>& ids, std::size_t fresh,
                     const SampleOptions& how);
  /// The weights to which the items' probabilities are proportional.
  [[nodiscard]] std::map<ItemId, double> weights() const;
  /// The weight of an item of priority 0 in a mixture, unless all have priority 0; else infinity.
  [[nodiscard]] double least_of_mixture(const std::map<ItemId, double>& all) const {
    const auto weighs = [&](const auto& each) { return items_.at(each.first).priority > 0.0F; };
    return drawing_ == Drawing::Mixed && std::ranges::any_of(all, weighs)
               ? kMixedUniform / static_cast<double>(all.size())
               : std::numeric_limits<double>::infinity();
  }
  /// The weight of an item, if it does not depend on other items.
  [[nodiscard]] double weight_of(const Item& item) const {
    switch (drawing_) {
      case Drawing::ByPriority:
        return weight(item.priority);
      case Drawing::Clipped:
        return weight(std::max(item.priority, 1.0F));
      case Drawing::ByAge:
        return std::pow(1.0 - double{kRecencyP},
                        static_cast<double>(next_item_number_ - 1 - item.order));
      default:
        return 1.0;
    }
  }

  // conformance_order.cpp has draws that are not by weight.
  void check_order(const std::vector<ItemId>& ids) const;
  void look_at_order() const;
  /// A possible state of the sampler's pass.
  struct Pass {
    /// Items that were not drawn yet, and whether they weighed 0 in a draw of the pass, in which
    /// case they may have lost their turn.
    std::map<ItemId, bool> left = {};
    std::size_t size = 0;      ///< Items at the beginning of the pass.
    bool drawn = false;        ///< Whether an item was drawn.
    std::uint64_t before = 0;  ///< Passes completed before this one.
  };
  /// Whether the sampler refuses such draws.
  [[nodiscard]] bool refused(Draws draws) const {
    const bool decided = in_order(drawing_) || options_.max_times_sampled != 0;
    return (draws == Draws::Epoch && decided) ||
           (share_ > 0.0F && (draws == Draws::Epoch || draws == Draws::WithoutReplacement));
  }
  void check_fresh(const Batch& batch, const std::vector<ItemId>& ids, std::size_t fresh);
  void pass_over(const std::map<ItemId, double>& weights);
  [[nodiscard]] Pass after(const Pass& pass) const;
  void check_pass(const Batch& batch, const std::vector<ItemId>& ids);
  void check_passes(const SampleStatus& status);
  void end_pass();

  // conformance_reads.cpp has reads by name.
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

  // conformance_looks.cpp has updates of priorities and looks at everything.
  void update();
  void look();
  void close();

  [[nodiscard]] std::uint64_t resident_steps() const {
    return std::min<std::uint64_t>(decided_steps_ - cleared_steps_, options_.capacity_steps);
  }
  [[nodiscard]] bool exhausted(const Item& item) const {
    return options_.max_times_sampled != 0 && item.draws >= options_.max_times_sampled;
  }
  /// Whether the policy has gone too far on since it made the item.
  [[nodiscard]] bool outdated(const Item& item) const {
    return options_.max_staleness &&
           item.version + static_cast<std::int64_t>(*options_.max_staleness) < version_;
  }
  [[nodiscard]] bool can_be_drawn(const Item& item) const {
    return !item.gone && !exhausted(item) && !outdated(item);
  }
  /// Items that are there, neither exhausted nor outdated, in the order in which they were decided.
  [[nodiscard]] std::vector<ItemId> drawable() const;

  const Setting setting_;
  const Drawing drawing_;
  Rng rng_;
  World world_;
  std::size_t writers_;
  Options options_;
  const float share_;  ///< `SamplerOptions::fresh`.
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
  std::int64_t version_ = 0;    ///< That of the policy.
  std::int64_t newest_ = 0;     ///< The highest version of an item.
  std::uint64_t outdated_ = 0;  ///< Items that became outdated.
  std::vector<Pass> passes_ = {Pass{}};
};

}  // namespace reprise::test
