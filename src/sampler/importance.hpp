#pragma once

#include <reprise/batch_source.hpp>

#include "tree/weighing.hpp"

#include <algorithm>
#include <span>

namespace reprise::sampler {

/// What the importance weights of a batch depend on, beside the probabilities.
struct DrawFacts {
  double items = 0.0;               ///< N.
  double lowest_probability = 0.0;  ///< The lowest P of all items.
  double lowest_drawn = 0.0;        ///< The lowest P of the drawn items.
  bool equal_weights = false;       ///< Every weight is 1, whatever P is.
};

/// w = (N * P)^-beta, divided by the largest w of the batch or of the buffer, which is the w of the
/// lowest P there (Schaul et al., 2016, section 3.4).
inline void weigh(std::span<const double> probabilities, const DrawFacts& facts, float beta,
                  Normalise normalise, std::span<float> weights) noexcept {
  if (facts.equal_weights) {
    std::ranges::fill(weights, 1.0F);
    return;
  }
  double reference = 0.0;
  if (normalise != Normalise::Not) {
    reference = facts.lowest_drawn;
    if (normalise == Normalise::ByBuffer) {
      // The buffer's lowest P is a hint that may be stale. The smaller of both lowest P keeps every
      // weight at most 1.
      reference = std::min(reference, facts.lowest_probability);
    }
  }
  tree::importance(probabilities, facts.items, beta, reference, weights);
}

}  // namespace reprise::sampler
