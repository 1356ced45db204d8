#pragma once

#include <reprise/batch_source.hpp>

#include "base/random.hpp"
#include "buffer/shard_set.hpp"
#include "sampler/importance.hpp"
#include "select/allot.hpp"
#include "shard/slots.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::sampler {

[[nodiscard]] inline select::Spread spread_of(Draws draws) noexcept {
  return draws == Draws::Stratified ? select::Spread::Stratified : select::Spread::Independent;
}

/// How many items and draws a batch needs, beside what the rate limiter asks for; or how many the
/// buffer has.
struct Needs {
  std::size_t items = 0;  ///< Different items, at least.
  std::size_t draws = 0;  ///< 0 if draws need not be counted.

  [[nodiscard]] bool covers(const Needs& other) const noexcept {
    return items >= other.items && draws >= other.draws;
  }
};

/// Consecutive draws that a shard made under one lock.
struct Run {
  std::size_t shard = 0;
  std::size_t begin = 0;  ///< The index of the run's first slot, and of its first pinned chunk.
  std::size_t count = 0;
  std::size_t pins = 0;
  double total = 0.0;  ///< The locked total of the shard, for draws by weight.
};

/// A batch that is being drawn: its slots are filled from the first on, run by run.
struct Drawing {
  shard::Slots slots;
  Draws draws = Draws::Stratified;
  std::vector<Run>& runs;
  std::size_t fresh = 0;  ///< How many of the first items were fresh.
  /// After a draw that failed: how many draws were possible, or 0 if the plan does not count that.
  std::size_t found = 0;

  [[nodiscard]] std::size_t done() const noexcept {
    return runs.empty() ? 0 : runs.back().begin + runs.back().count;
  }
  /// Adds a run of what a shard drew into the slots from `done` on, if it drew anything.
  void add(std::size_t shard, const shard::Drawn& drawn) {
    if (drawn.items != 0) {
      runs.push_back({shard, done(), drawn.items, drawn.pins, drawn.total});
    }
  }
  /// Removes all runs but the first `but_first`, and gives back their pins.
  void give_back(buffer::ShardSet& shards, std::size_t but_first = 0) noexcept {
    for (const Run& run : std::span(runs).subspan(but_first)) {
      shards[run.shard].unpin(slots.sub(run.begin, run.pins).pinned);
    }
    runs.resize(but_first);
  }
};

/// A way to draw the items of a batch. A sampler has one of each, and chooses by the options of the
/// call. One thread at a time.
class DrawPlan {
 public:
  enum class Outcome : std::uint8_t {
    Drawn,
    Retry,     ///< The shards changed during the draw: another try may succeed at once.
    TooFew,    ///< The buffer has too few items or draws left: a try may succeed once it has more.
    NoWeight,  ///< The buffer has the items, but too few of them weigh more than 0.
  };

  virtual ~DrawPlan() = default;
  DrawPlan(const DrawPlan&) = delete;
  DrawPlan& operator=(const DrawPlan&) = delete;

  /// What a batch of n draws needs. One item is enough if draws are made with replacement.
  [[nodiscard]] virtual Needs needs(std::size_t /*n*/, Draws /*draws*/) const noexcept {
    return {};
  }
  /// Makes room for the draws, so that `draw` allocates nothing.
  virtual void reserve(Drawing& drawing) = 0;
  /// Draws into the remaining slots, pins each item's chunk, and writes the probabilities. After
  /// any answer but `Drawn` the runs are as before, and `draw` may be called again; only
  /// `FreshDraw` keeps the runs of its first try.
  virtual Outcome draw(Drawing& drawing, base::Random& random) = 0;

  /// What the importance weights of the last draw depend on.
  [[nodiscard]] const DrawFacts& facts() const noexcept { return facts_; }

 protected:
  DrawPlan(buffer::ShardSet& shards, std::size_t selector) noexcept
      : shards_(shards), selector_(selector) {}

  /// The outcome of a draw that found no weight. Each total is read under its shard's lock. Hints
  /// would not do: they change only when a lock is released, and a thread that still holds one may
  /// have ingested the items for which this draw was admitted.
  [[nodiscard]] Outcome without_weight() noexcept {
    bool items = false;
    for (std::size_t s = 0; s < shards_.size(); ++s) {
      const buffer::ShardSet::Lock shard(shards_, s);
      items = items || shard->items() != 0;
      if (shard->selector(selector_).summary().total > 0.0) {
        return Outcome::Retry;
      }
    }
    return items ? Outcome::NoWeight : Outcome::TooFew;
  }

  buffer::ShardSet& shards_;
  const std::size_t selector_;
  DrawFacts facts_;
};

}  // namespace reprise::sampler
