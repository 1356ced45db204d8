#pragma once

#include <reprise/item_key.hpp>
#include <reprise/sampler.hpp>

#include "base/random.hpp"
#include "buffer/buffer_core.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::sampler {

/// Draws that concern all shards at one moment: in order, without replacement, or of items that may
/// be drawn only so often. Every shard's lock is held from the first choice to the last pin.
///
/// One thread at a time. Scratch grows with the largest batch.
class SnapshotDraw {
 public:
  SnapshotDraw(buffer::BufferCore& core, std::size_t selector);

  /// Whether a draw has to be made here.
  [[nodiscard]] bool needed_for(Draws draws) const noexcept {
    return ordered_ || limited_ || draws == Draws::WithoutReplacement;
  }
  /// Whether an item may be in the batch as often as it may be drawn, and no more.
  [[nodiscard]] bool counts_draws(Draws draws) const noexcept {
    return limited_ && !ordered_ && draws != Draws::WithoutReplacement;
  }
  /// Different items that a batch of n takes at least.
  [[nodiscard]] std::size_t distinct(std::size_t n, Draws draws) const noexcept;

  /// Makes room for n draws; `draw` of as many then allocates nothing.
  void reserve(std::size_t n);

  /// What becomes of n draws, one element each.
  struct Batch {
    std::span<ItemKey> keys;
    std::span<storage::Place> places;
    std::span<double> probabilities;
    std::span<std::uint32_t> pinned;  ///< Chunks, those of each shard together.
    std::span<std::size_t> pins;      ///< Chunks of each shard in `pinned`.
  };
  /// Draws, and pins each item's chunk. False if too few items can be drawn: nothing has changed.
  /// In order, items that arrived during the call may be left for the next: then it is worth
  /// another try.
  bool draw(const Batch& batch, Draws draws, base::Random& random);

  /// Of the last draw: items that N in (N * P)^-beta counts, and the least P there could be.
  [[nodiscard]] std::size_t items() const noexcept { return items_; }
  /// Why the last call failed: there were too few items, or draws, for the batch, whatever they
  /// weigh; or others drew before it what came first. It may succeed later.
  [[nodiscard]] bool was_short() const noexcept { return short_; }
  /// Draws that the last call found; fewer than it was asked for if it failed.
  [[nodiscard]] std::size_t found() const noexcept { return found_; }
  [[nodiscard]] double lowest_probability() const noexcept { return lowest_probability_; }

 private:
  using All = buffer::ShardSet::All;
  struct Choice {
    std::uint32_t shard = 0;
    std::uint32_t leaf = 0;
    float weight = 1.0F;      ///< In units of the shard selector.
    std::uint32_t first = 0;  ///< In round_: the first draw of the same item.
    bool seen = false;        ///< Of that one: the item has arrived in this round.
    bool taken = false;
    bool exhausted = false;  ///< By this draw.
    bool hidden = false;     ///< Or about to be, if there is another round.
  };

  // snapshot_draw.cpp: which items.
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

  // snapshot_settle.cpp: what becomes of them.
  template <class Which, class Call>
  void by_shard(const All& all, std::span<const Choice> choices, Which which, Call call) noexcept;
  void hide(const All& all, std::span<const Choice> choices) noexcept;
  void show(const All& all, bool exhausted) noexcept;
  void undo(const All& all) noexcept;
  void settle(const All& all) noexcept;
  void hand_out(const All& all, const Batch& batch) noexcept;
  void hand_out_ordered(const All& all, const Batch& batch) noexcept;

  buffer::BufferCore& core_;
  const std::size_t selector_;
  const bool ordered_;
  const bool limited_;  ///< An item may be drawn only so often.

  std::uint64_t horizon_ = 0;  ///< Items with a lower number may be drawn in order.
  std::size_t items_ = 0;
  std::size_t found_ = 0;
  bool short_ = false;
  bool any_to_show_ = false;  ///< Items are hidden that are to be shown again.
  double lowest_probability_ = 0.0;
  /// Of P: weight * scale_ with replacement; without, what `Draws` says, from threshold_.
  double scale_ = 0.0;
  double threshold_ = 0.0;

  std::vector<Choice> chosen_;
  std::vector<Choice> round_;  ///< Draws of one round, by shard; those of an item together.
  std::vector<std::uint32_t> arrivals_;  ///< In round_, in the order in which they arrive.
  std::vector<double> positions_;
  std::vector<double> fractions_;
  std::vector<std::uint32_t> leaves_;
  std::vector<float> weights_;
  // One element per shard.
  std::vector<double> totals_;  ///< At last, of the weights' units.
  std::vector<double> shares_;
  std::vector<std::size_t> counts_;
};

}  // namespace reprise::sampler
