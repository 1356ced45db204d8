#pragma once

#include <span>

namespace reprise::tree {

// All functions choose their instruction set at run time and give the same bits on each, provided
// that weighing.cpp is compiled without contraction to fused multiply-adds (-ffp-contract=off).

/// weights[i] = (priorities[i] + epsilon)^alpha, to 2 units in the last place; 0^0 is 1. A result
/// too large for a float becomes +infinity, one above 0 that is below 2^-126 becomes 2^-126, the
/// smallest float that is above 0 on a thread that flushes denormal numbers to 0.
///
/// Needs finite priorities, epsilon and alpha, none below 0 and none denormal. The spans have one
/// length and may be the same memory.
void weigh(std::span<const float> priorities, float alpha, float epsilon,
           std::span<float> weights) noexcept;

/// weights[i] becomes weights[i]^exponent, to 1 unit in the last place for exponents up
/// to 100. A weight of 0 stays 0; others stay positive and finite: at worst they become 2^-126
/// or the largest float.
///
/// Needs finite weights, none denormal, and an exponent of at least 0.
void raise(std::span<float> weights, double exponent) noexcept;

/// weights[i] = (probabilities[i] / reference_probability)^-beta if reference_probability is above
/// 0, else (items * probabilities[i])^-beta, to 1e-6 relative, clamped to the normal floats above
/// 0.
///
/// Needs finite arguments, and probabilities above 0.
void importance(std::span<const double> probabilities, double items, float beta,
                double reference_probability, std::span<float> weights) noexcept;

}  // namespace reprise::tree
