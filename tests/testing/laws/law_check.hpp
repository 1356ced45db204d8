#pragma once

#include "draw_counts.hpp"
#include "selector_laws.hpp"
#include "testing/fixtures/line.hpp"
#include "testing/fixtures/rng.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::test {

/// A buffer of 100 items beside the plainest account of them. Each batch that it draws is compared
/// with the selector's law: the probability and the importance weight of each item, or their order.
///
/// Five writers append in turn, so that every shard has young and old items, and each step is an
/// episode, which decides its item at once: an item's number is how many were decided before it.
class LawCheck {
 public:
  LawCheck(const SelectorLaw& law, std::size_t shards, std::uint64_t seed = 1)
      : LawCheck(law, options(shards), seed) {}
  LawCheck(const SelectorLaw& law, Options options, std::uint64_t seed);

  [[nodiscard]] static Options options(std::size_t shards);

  void append(std::span<const float> priorities);
  /// With random priorities. A third have none of their own, and so the highest in the buffer, if
  /// the law is one of chance.
  void append_random(std::size_t count);
  void set_priority(std::uint64_t number, float priority);
  /// Gives random items new priorities in one call, one in six twice: the last counts.
  void update(std::size_t count);
  void remove(std::size_t count);
  void set_alpha(float alpha);
  /// Halves all weights.
  void decay();
  /// Saves the buffer and loads what was saved in its place.
  void save_and_restore();

  /// A batch, compared with the law; its draws are counted if items may repeat.
  void draw(std::size_t n, const SampleOptions& how = kAtOnce);
  [[nodiscard]] const DrawCounts& counts() const { return counts_; }
  /// How far the numbers of draws are from the law.
  [[nodiscard]] double z() const { return counts_.z(); }

  /// Items that can be drawn.
  [[nodiscard]] std::size_t items() {
    find_items();
    return numbers_.size();
  }
  /// The weights of the items that can be drawn, oldest first.
  [[nodiscard]] std::vector<double> weights();

  Line line;

 private:
  struct Item {
    float priority = 0.0F;
    double decayed = 1.0;
    std::uint64_t episode = 0;
    ItemKey key = {};
    std::size_t draws = 0;
  };

  void make_writers();
  void append_one(std::span<const float> priority);
  /// Which items can be drawn, and with what probability. Ingests what was appended, so that it is
  /// not called before it is needed.
  void find_items();
  void weigh_items();
  [[nodiscard]] std::vector<double> weights_now() const;
  void check_order(const Batch& batch) const;
  void check_chances(const Batch& batch, const SampleOptions& how);
  [[nodiscard]] double probability_of(std::uint64_t number) const;
  [[nodiscard]] double reference(const Batch& batch, const SampleOptions& how) const;
  [[nodiscard]] float random_priority() { return static_cast<float>(rng_.below(50)); }

  const SelectorLaw& law_;
  Rng rng_;
  double alpha_;
  double tolerance_;
  std::vector<Writer> writers_;
  Sampler sampler_;
  std::vector<Item> all_;               ///< By number, also those that are gone.
  std::vector<std::uint64_t> numbers_;  ///< Of those that can be drawn, rising.
  std::vector<double> probabilities_;   ///< Of `numbers_`; in order what decides it.
  DrawCounts counts_;
};

}  // namespace reprise::test
