#pragma once

#include <reprise/item_key.hpp>
#include <reprise/sampler.hpp>

#include "base/random.hpp"
#include "buffer/buffer_core.hpp"
#include "sampler/run.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::sampler {

/// Draws from all shards at one moment: draws in order, without replacement, or with a limit per
/// item. Every shard's lock is held from the first choice to the last pin.
///
/// One thread at a time. Scratch grows with the largest batch.
class SnapshotDraw {
 public:
  SnapshotDraw(buffer::BufferCore& core, std::size_t selector);

  /// Whether such draws have to be made by this class.
  [[nodiscard]] bool needed_for(Draws draws) const noexcept {
    return ordered_ || limited_ || draws == Draws::WithoutReplacement;
  }
  /// Whether a batch may have an item repeatedly but only up to its limit, so that draws left have
  /// to be counted.
  [[nodiscard]] bool counts_draws(Draws draws) const noexcept {
    return limited_ && !ordered_ && draws != Draws::WithoutReplacement;
  }
  /// The least number of different items that a batch of n takes.
  [[nodiscard]] std::size_t distinct(std::size_t n, Draws draws) const noexcept;

  /// Makes room for n draws, so that `draw` allocates nothing for a batch of n.
  void reserve(std::size_t n);

  /// Draws, and pins each item's chunk; `runs` has room for one of each shard. False if too few
  /// items can be drawn; then nothing has changed. A draw in order leaves items that were decided
  /// during the call to the next one, so it may be worth another try.
  bool draw(const shard::Slots& batch, Draws draws, base::Random& random, std::vector<Run>& runs);

  /// The last draw: N in (N * P)^-beta, and in `lowest_probability` the lowest P that an item could
  /// have.
  [[nodiscard]] std::size_t items() const noexcept { return items_; }
  /// Whether the last call failed for lack of items or draws, whatever the items weigh, or because
  /// the first item has a number at or above the horizon. If so, it may succeed later.
  [[nodiscard]] bool was_short() const noexcept { return short_; }
  /// How many draws the last call found; it may have failed with fewer than it was asked for.
  [[nodiscard]] std::size_t found() const noexcept { return found_; }
  [[nodiscard]] double lowest_probability() const noexcept { return lowest_probability_; }

 private:
  using All = buffer::ShardSet::All;
  struct Choice {
    std::uint32_t shard = 0;
    std::uint32_t leaf = 0;
    float weight = 1.0F;
    std::uint32_t first = 0;  ///< Index in round_ of the item's first draw.
    bool seen = false;        ///< In the item's first draw: it has arrived.
    bool taken = false;
    bool exhausted = false;  ///< This draw was the item's last one.
    bool hidden = false;     ///< Hidden before the next round, if there is one.
  };

  // These choose the items.
  double read_totals(const All& all) noexcept;
  [[nodiscard]] double probability(double weight, std::size_t n) const noexcept;
  [[nodiscard]] bool lacks(std::size_t n, Draws draws) const noexcept;
  bool choose_first(const All& all, std::size_t n) noexcept;
  bool choose_by_weight(const All& all, std::size_t n, Draws draws, base::Random& random) noexcept;
  void draw_round(const All& all, std::span<double> fractions, bool stratified, double total,
                  base::Random& random) noexcept;
  bool take_round(const All& all, std::size_t n, bool without, double total,
                  base::Random& random) noexcept;
  bool take_arrivals(const All& all, std::size_t n, double total, base::Random& random) noexcept;
  void accept(const All& all, Choice& choice, bool hidden) noexcept;

  // These hide and show items, and hand them out.
  template <class Which, class Call>
  void by_shard(std::span<const Choice> choices, Which which, Call call) noexcept;
  void hide(const All& all, std::span<const Choice> choices) noexcept;
  void show(const All& all, bool exhausted) noexcept;
  void undo(const All& all) noexcept;
  void settle(const All& all) noexcept;
  void hand_out(const All& all, const shard::Slots& batch, std::vector<Run>& runs) noexcept;

  buffer::BufferCore& core_;
  const std::size_t selector_;
  const bool ordered_;
  const bool limited_;  ///< max_times_sampled is set.

  std::uint64_t horizon_ = 0;  ///< Items with a lower number may be drawn in order.
  std::size_t items_ = 0;
  std::size_t found_ = 0;
  bool short_ = false;
  bool any_to_show_ = false;  ///< Some hidden items have to be shown again.
  double lowest_probability_ = 0.0;
  /// For P: with replacement it is weight * scale_; without, it follows from threshold_ as
  /// `reprise::Draws` says.
  double scale_ = 0.0;
  double threshold_ = 0.0;

  std::vector<Choice> chosen_;
  std::vector<Choice> round_;  ///< Draws of one round by shard; those of an item together.
  std::vector<std::uint32_t> arrivals_;  ///< Indices in round_ as they arrive.
  std::vector<double> positions_;
  std::vector<double> fractions_;
  std::vector<std::uint32_t> leaves_;
  std::vector<float> weights_;
  std::vector<ItemKey> keys_;  ///< Of a draw in order, shard by shard.
  std::vector<storage::Place> places_;
  // One element per shard.
  std::vector<double> totals_;
  std::vector<double> shares_;
  std::vector<std::size_t> counts_;
};

}  // namespace reprise::sampler
