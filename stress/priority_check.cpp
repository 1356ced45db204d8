#include "priority_check.hpp"

#include "drawn.hpp"
#include "episode.hpp"
#include "findings.hpp"
#include "options.hpp"
#include "shadow.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace stress {
namespace {

/// Leaves may be floats: two roundings of 2^-24 each, with room.
constexpr double kTolerance = 1e-5;
/// Importance weights that are judged in each batch.
constexpr std::size_t kWeightsJudged = 8;

}  // namespace

PriorityCheck::PriorityCheck(const Options& options, std::size_t places_per_shard,
                             Findings& findings)
    : learners_(std::max<std::size_t>(options.learners, 1)),
      n_step_(options.n_step),
      places_per_shard_(places_per_shard),
      finding_(options.implementation == Implementation::Reprise ? Finding::WrongPriority
                                                                 : Finding::MisdirectedUpdate),
      findings_(findings) {
  for (std::uint32_t level = 0; level <= kTopLevel; ++level) {
    weight_of_level_[level] =
        std::pow(static_cast<double>(priority_of(level)), static_cast<double>(kAlpha));
  }
}

void PriorityCheck::check(const Drawn& drawn, std::span<const Judged> judged,
                          std::span<const Shadow> shadows, std::optional<std::size_t> me) {
  levels_.resize(drawn.size);
  for (std::size_t i = 0; i < drawn.size; ++i) {
    levels_[i] = known_level(drawn.keys[i], judged[i], shadows, me);
    const double probability = drawn.probabilities[i];
    if (!(probability > 0.0) || !(probability <= 1.0 + 1e-9)) {
      findings_.add(Finding::ZeroWeightDraw, "probability " + std::to_string(probability));
      levels_[i] = kUnknown;
    }
  }
  // Draws come in the order of their places. A descent means that a shard was asked again.
  const auto place = [&](std::size_t i) { return static_cast<std::uint32_t>(drawn.keys[i]); };
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= drawn.size; ++i) {
    if (i == drawn.size || place(i) < place(i - 1) ||
        place(i) / places_per_shard_ != place(begin) / places_per_shard_) {
      check_run(drawn, begin, i);
      begin = i;
    }
  }
  check_importance(drawn);
}

std::uint32_t PriorityCheck::known_level(std::uint64_t key, const Judged& judged,
                                         std::span<const Shadow> shadows,
                                         std::optional<std::size_t> me) const {
  if (!judged.legible) {
    return kUnknown;
  }
  const std::size_t owner = World::owner(judged.hash, learners_);
  if (me && *me != owner) {
    return kUnknown;
  }
  const std::optional<std::uint32_t> updated = shadows[owner].level(key);
  return updated.value_or(known_first_level(judged.id, judged.episode, n_step_).value_or(kUnknown));
}

void PriorityCheck::check_run(const Drawn& drawn, std::size_t begin, std::size_t end) {
  double reference = 0.0;
  std::size_t known = 0;
  std::size_t wrong = 0;
  std::string first;
  for (std::size_t i = begin; i < end; ++i) {
    if (levels_[i] == kUnknown) {
      continue;
    }
    if (levels_[i] == 0) {
      // A priority of 0 that went astray shows as some other weight where it should have been.
      findings_.add(finding_ == Finding::WrongPriority ? Finding::ZeroWeightDraw : finding_,
                    "key " + std::to_string(drawn.keys[i]));
      continue;
    }
    const double ratio = drawn.probabilities[i] / weight_of_level_[levels_[i]];
    reference = known++ == 0 ? ratio : reference;
    if (!(std::abs(ratio - reference) <= kTolerance * reference)) {
      if (wrong++ == 0) {
        first = "key " + std::to_string(drawn.keys[i]) + ", item " + std::to_string(i) + " of [" +
                std::to_string(begin) + ", " + std::to_string(end) + "), level " +
                std::to_string(levels_[i]) + ": its weight is " +
                std::to_string(ratio / reference) + " times what it should be";
      }
    }
  }
  // If the first was the wrong one, all others differ from it.
  for (std::size_t i = 0; i < std::min(wrong, known - std::min(wrong, known - 1)); ++i) {
    findings_.add(finding_, first);
  }
}

void PriorityCheck::check_importance(const Drawn& drawn) {
  if (!drawn.by_batch) {
    return;
  }
  const double least = *std::ranges::min_element(drawn.probabilities);
  const std::size_t step = std::max<std::size_t>(1, drawn.size / kWeightsJudged);
  for (std::size_t i = 0; i < drawn.size; i += step) {
    const double expected = std::pow(least / drawn.probabilities[i], static_cast<double>(kBeta));
    if (!(std::abs(static_cast<double>(drawn.weights[i]) - expected) <= 1e-5)) {
      findings_.add(Finding::WrongPriority, "importance weight " +
                                                std::to_string(drawn.weights[i]) + ", expected " +
                                                std::to_string(expected));
    }
  }
}

}  // namespace stress
