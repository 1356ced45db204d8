#pragma once

#include <reprise/batch_source.hpp>
#include <reprise/item.hpp>

#include "base/random.hpp"
#include "buffer/item_numbers.hpp"
#include "buffer/shard_set.hpp"
#include "sampler/draw_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::sampler {

/// Draws from all shards at one moment: draws in order, without replacement, or with a limit per
/// item. Every shard's lock is held from the first choice to the last pin.
///
/// One thread at a time. Scratch grows with the largest batch.
class SnapshotDraw final : public DrawPlan {
 public:
  /// `ordered`: the selector draws in order.
  SnapshotDraw(buffer::ShardSet& shards, const buffer::ItemNumbers& numbers, std::size_t selector,
               bool ordered);

  [[nodiscard]] Needs needs(std::size_t n, Draws draws) const noexcept override;
  void reserve(Drawing& drawing) override;
  /// After any answer but `Drawn` nothing has changed.
  Outcome draw(Drawing& drawing, base::Random& random) override;

 private:
  using All = buffer::ShardSet::LockAll;
  struct Choice {
    std::uint32_t shard = 0;
    std::uint32_t leaf = 0;
    float weight = 1.0F;
    /// The index in round_ of the item's first draw; in `fill_batch` the choice's place in scratch.
    std::uint32_t first = 0;
    bool seen = false;       ///< In the item's first draw: whether the item has arrived.
    bool taken = false;      ///< Without replacement: whether this draw goes into the batch.
    bool exhausted = false;  ///< This draw was the item's last one.
    bool hidden = false;     ///< Hidden before the next round, if there is one.
  };

  bool draw_once(Drawing& drawing, base::Random& random);

  // Methods that choose items.
  double read_totals(const All& all) noexcept;
  [[nodiscard]] double probability(double weight, std::size_t n) const noexcept;
  bool choose_first(const All& all, std::size_t n) noexcept;
  bool choose_by_weight(const All& all, std::size_t n, Draws draws, base::Random& random) noexcept;
  void draw_round(const All& all, std::span<double> fractions, select::Spread spread, double total,
                  base::Random& random) noexcept;
  bool take_draws(const All& all, std::size_t n) noexcept;
  bool take_arrivals(const All& all, std::size_t n, double total, base::Random& random) noexcept;
  void accept(const All& all, Choice& choice) noexcept;
  void accept_once(const All& all, Choice& choice) noexcept;

  // Methods that hide and show items, and hand them out.
  template <class Which, class Call>
  void by_shard(std::span<const Choice> choices, Which which, Call call) noexcept;
  void hide(const All& all, std::span<const Choice> choices) noexcept;
  template <class Which>
  void show(const All& all, Which which) noexcept;
  void undo(const All& all) noexcept;
  void settle(const All& all) noexcept;
  void fill_batch(const All& all, Drawing& drawing) noexcept;

  const buffer::ItemNumbers& numbers_;
  const bool ordered_;

  std::uint64_t horizon_ = 0;  ///< Items with a lower number may be drawn in order.
  /// Why the last try failed: too few items or draws were left, or the first item's number was not
  /// below the horizon. So another try may succeed later. False if too few items had weight.
  bool lacks_items_ = false;
  bool any_hidden_ = false;  ///< Some items may be hidden that have to be shown again.
  /// With replacement an item's P is weight * scale_; without replacement P follows from threshold_
  /// as `reprise::Draws` says.
  double scale_ = 0.0;
  double threshold_ = 0.0;

  std::vector<Choice> chosen_;
  std::vector<Choice> round_;  ///< Draws of one round by shard; draws of one item are adjacent.
  std::vector<std::uint32_t> arrivals_;  ///< Indices in round_, in the order of arrival.
  std::vector<double> positions_;
  std::vector<double> fractions_;
  std::vector<std::uint32_t> leaves_;
  std::vector<float> weights_;
  std::vector<ItemKey> keys_;  ///< Keys of an ordered draw, shard by shard.
  std::vector<storage::Place> places_;
  // One element per shard.
  std::vector<std::int64_t> first_keys_;
  std::vector<double> totals_;
  std::vector<double> shares_;
  std::vector<std::size_t> counts_;
};

}  // namespace reprise::sampler
