#pragma once

#include "sampler/draw_plan.hpp"

#include <cstddef>
#include <vector>

namespace reprise::sampler {

/// Draws by weight and with replacement, stratified or independent: draws are allotted to the
/// shards by hints, and each shard's lock is taken once.
class WeightedDraw final : public DrawPlan {
 public:
  WeightedDraw(buffer::ShardSet& shards, std::size_t selector);

  void reserve(Drawing& drawing) override;
  Outcome draw(Drawing& drawing, base::Random& random) override;

 private:
  [[nodiscard]] bool read_hints() noexcept;
  void draw_round(Drawing& drawing, select::Spread spread, base::Random& random);
  void report(const Drawing& drawing, std::size_t before) noexcept;

  // Scratch, one element per draw.
  std::vector<double> positions_;
  std::vector<double> fractions_;
  // One element per shard.
  std::vector<double> shares_;
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> begins_;  ///< Index in `fractions_` of the first draw of each shard.
  std::vector<shard::Drawn> drawn_;
};

}  // namespace reprise::sampler
