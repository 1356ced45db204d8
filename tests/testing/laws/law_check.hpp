#pragma once

#include "draw_counts.hpp"
#include "selector_laws.hpp"
#include "testing/test.hpp"

namespace reprise::test {

/// A buffer of 100 items, and a plain list of the items that should be in it. Each batch is
/// compared with the selector's law: the probability and the importance weight of each item, or
/// their order.
///
/// Five writers append in turn, so that every shard has young and old items. Each step is an
/// episode, so its item's window is complete at once: an item's number is the number of items
/// decided before it.
class LawCheck {
 public:
  LawCheck(const SelectorLaw& law, std::size_t shards, std::uint64_t seed = 1)
      : LawCheck(law, options(shards), seed) {}
  LawCheck(const SelectorLaw& law, Options options, std::uint64_t seed);

  [[nodiscard]] static Options options(std::size_t shards);

  void append(std::span<const float> priorities);
  /// Appends steps with random priorities. If the selector draws by chance, a third of the steps
  /// are appended without a priority, and so get the highest one in the buffer.
  void append_random(std::size_t count);
  void set_priority(std::uint64_t number, float priority);
  /// Gives random items new priorities in one call. One in six items comes twice; its last priority
  /// counts.
  void update(std::size_t count);
  void remove(std::size_t count);
  void set_alpha(float alpha);
  /// Halves all weights.
  void decay();
  /// Raises the policy's version so that most of the items are outdated, but no item appended
  /// later. For buffers whose `max_staleness` is kStaleness.
  void raise_version();
  static constexpr std::int64_t kStaleness = 3;
  /// Saves the buffer and restores it from the checkpoint.
  void save_and_restore();

  /// Draws a batch and compares it with the law. Counts its draws if items may come repeatedly.
  void draw(std::size_t n, const SampleOptions& how = kNoWait);
  [[nodiscard]] const DrawCounts& counts() const { return counts_; }
  /// The z-score of the counts of draws, compared with the law.
  [[nodiscard]] double z() const { return counts_.z(); }

  /// The number of items that can be drawn.
  [[nodiscard]] std::size_t items() {
    find_items();
    return numbers_.size();
  }
  /// The weights of the items that can be drawn, oldest first.
  [[nodiscard]] std::vector<double> weights();

  NumberedBuffer line;

 private:
  struct Item {
    float priority = 0.0F;
    double decay_factor = 1.0;
    std::uint64_t episode = 0;
    ItemKey key = {};
    std::size_t draws = 0;
  };

  void make_writers();
  void append_one(std::span<const float> priority);
  /// The policy's version that is written with the item of this number.
  [[nodiscard]] static std::int64_t version_of(std::uint64_t number) {
    return static_cast<std::int64_t>(number / kItemsPerVersion + number * 7 % 3);
  }
  static constexpr std::uint64_t kItemsPerVersion = 16;
  /// Finds which items can be drawn, and with what probability. This makes the buffer ingest all
  /// steps, so it is called only where it is needed.
  void find_items();
  void set_probabilities();
  [[nodiscard]] std::vector<double> weights_now() const;
  void check_order(const Batch& batch) const;
  void check_probabilities(const Batch& batch, const SampleOptions& how);
  [[nodiscard]] double probability_of(std::uint64_t number) const;
  [[nodiscard]] double importance_divisor(const Batch& batch, const SampleOptions& how) const;
  [[nodiscard]] float random_priority() { return static_cast<float>(rng_.below(50)); }

  const SelectorLaw& law_;
  Rng rng_;
  double alpha_;
  double tolerance_;
  std::vector<Writer> writers_;
  Sampler sampler_;
  std::vector<Item> all_;  ///< All items by number, including those that have left the buffer.
  std::vector<std::uint64_t> numbers_;  ///< Numbers of the items that can be drawn, ascending.
  /// Probabilities of `numbers_`; for ordered selectors, the numbers by which they order.
  std::vector<double> probabilities_;
  std::int64_t version_ = 0;  ///< The policy's version.
  DrawCounts counts_;
};

}  // namespace reprise::test
