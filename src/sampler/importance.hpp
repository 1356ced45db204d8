#pragma once

#include <reprise/sampler.hpp>

#include "tree/weighing.hpp"

#include <algorithm>
#include <span>

namespace reprise::sampler {

/// What the importance weights of a batch depend on, beside its probabilities.
struct DrawFacts {
  double items = 0.0;               ///< N.
  double lowest_probability = 0.0;  ///< The lowest P of all items.
  double lowest_drawn = 0.0;        ///< The lowest P of the drawn items.
};

/// w = (N * P)^-beta, divided by the largest w of the batch or the buffer, which is the w of its
/// lowest P (Schaul et al., 2016, section 3.4).
inline void weigh(std::span<const double> probabilities, const DrawFacts& facts, float beta,
                  Normalise normalise, std::span<float> weights) noexcept {
  double reference = 0.0;
  if (normalise != Normalise::Not) {
    reference = facts.lowest_drawn;
    if (normalise == Normalise::ByBuffer) {
      // What is known of the lowest may be older than the draw; with the minimum no weight is
      // above 1.
      reference = std::min(reference, facts.lowest_probability);
    }
  }
  tree::importance(probabilities, facts.items, beta, reference, weights);
}

}  // namespace reprise::sampler
