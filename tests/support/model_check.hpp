#pragma once

#include <reprise/reprise.hpp>

#include "line.hpp"
#include "model.hpp"
#include "world.hpp"

#include <string>

namespace reprise::test {

/// In words, the first item of the batch that is not what the model computes; empty if all are.
[[nodiscard]] std::string first_difference(const Batch& batch, const World& world,
                                           const Model& model);

/// Every item of the batch is resident in the model and its window is what the model computes.
void expect_windows_agree(const Batch& batch, const World& world, const Model& model);

/// Reported probabilities are weight / total to the given relative error, and importance weights
/// are those of a double-precision formula to 1e-6.
void expect_weights_agree(const Batch& batch, const Model& model, const SampleOptions& options,
                          double relative_error);

/// size() and stats() agree with the model, and every committed step is accounted for.
void expect_counts_agree(const ReplayBuffer& replay, const Model& model);

}  // namespace reprise::test
