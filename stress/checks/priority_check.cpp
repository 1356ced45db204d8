#include "checks/priority_check.hpp"

#include "testing/library.hpp"

#include <unordered_set>

namespace stress {
namespace {

/// Relative tolerance of weights, far above their rounding: a weight that is stored as a float is
/// rounded twice, by at most 2^-24 of its value.
constexpr double kTolerance = 1e-5;
/// Number of importance weights of a batch that are checked.
constexpr std::size_t kWeightsChecked = 8;

/// A number in proportion to an item's weight; infinite if it cannot be computed.
double rate_of(const Drawn& drawn, std::size_t item) {
  // Above this probability too few digits of 1 - n * P are exact.
  constexpr double kNearlyCertain = 0.999;
  const double probability = drawn.probabilities()[item];
  if (!drawn.without_replacement) {
    return probability;
  }
  const double among = probability * static_cast<double>(drawn.size());
  return among < kNearlyCertain ? -std::log1p(-among) : std::numeric_limits<double>::infinity();
}

}  // namespace

PriorityCheck::PriorityCheck(const Options& options, const Strategies& strategies,
                             std::size_t shards, std::size_t slots_per_shard, Findings& findings)
    : learners_(std::max<std::size_t>(options.learners, 1)),
      reach_(WindowRule(strategies.window).full_length()),
      draw_rule_(strategies.draw_rule),
      shards_(shards),
      slots_per_shard_(slots_per_shard),
      findings_(findings),
      order_(strategies.draw_rule, options.max_times_sampled == 1, findings) {
  for (std::size_t exponent = 0; exponent < kAlphas.size(); ++exponent) {
    for (std::uint32_t level = 0; level <= kTopLevel; ++level) {
      weight_of_level_[exponent][level] = draw_rule_ == DrawRule::Uniform
                                              ? 1.0
                                              : std::pow(static_cast<double>(priority_of(level)),
                                                         static_cast<double>(kAlphas[exponent]));
    }
  }
}

void PriorityCheck::check(const Drawn& drawn, CheckedItems items,
                          std::span<const KnownPriorities> known,
                          std::optional<std::size_t> learner_index,
                          std::optional<std::size_t> exponent) {
  levels_.resize(drawn.size());
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    levels_[i] = known_level(drawn.keys()[i], items[i], known, learner_index);
  }
  check_range(drawn);
  order_.check(drawn, items, levels_);
  if (drawn.is_epoch) {
    if (draw_rule_ == DrawRule::ByPriority) {
      check_zeros(drawn, {0, drawn.size()});
    }
    return;
  }
  if (draw_rule_ == DrawRule::ByPriority || draw_rule_ == DrawRule::Uniform) {
    check_weights(drawn, exponent);
  } else if (draw_rule_ == DrawRule::ByRank && !learner_index) {
    check_ranks(drawn);
  }
  check_importance(drawn);
}

void PriorityCheck::check_range(const Drawn& drawn) {
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double probability = drawn.probabilities()[i];
    if (!(probability > 0.0) || !(probability <= 1.0 + 1e-9)) {
      findings_.add(Finding::ZeroWeightDraw, "probability " + std::to_string(probability));
      levels_[i].reset();
    }
    const float weight = drawn.weights()[i];
    if (!(weight > 0.0F) || !std::isfinite(weight)) {
      findings_.add(Finding::WrongPriority, "importance weight " + std::to_string(weight));
    }
  }
}

void PriorityCheck::check_weights(const Drawn& drawn, std::optional<std::size_t> exponent) {
  check_zeros(drawn, {0, drawn.fresh});
  if (drawn.second_part > drawn.fresh) {
    check_part(drawn, {drawn.fresh, drawn.second_part}, exponent);
  }
  check_part(drawn, {std::max(drawn.fresh, drawn.second_part), drawn.size()}, exponent);
}

void PriorityCheck::check_part(const Drawn& drawn, Run part, std::optional<std::size_t> exponent) {
  const auto slot = [&](std::size_t i) { return drawn.keys()[i].slot(); };
  const auto shard = [&](std::size_t i) { return slot(i) / slots_per_shard_; };
  std::unordered_set<std::size_t> shards;
  for (std::size_t i = part.begin; i < part.end; ++i) {
    shards.insert(shard(i));
  }
  bool may_be_two_locks = !drawn.is_snapshot && shards.size() < shards_;
  // Draws under one lock are sorted by slot, so a lower slot means that a shard was locked again.
  for (std::size_t begin = part.begin, i = begin + 1; begin < part.end; ++i) {
    if (i == part.end ||
        (!drawn.is_snapshot && (slot(i) < slot(i - 1) || shard(i) != shard(i - 1)))) {
      check_run(drawn, {begin, i}, exponent, may_be_two_locks);
      begin = i;
    }
  }
}

void PriorityCheck::check_ranks(const Drawn& drawn) {
  by_level_.clear();
  for (std::size_t i = drawn.fresh; i < drawn.size(); ++i) {
    if (levels_[i]) {
      by_level_.push_back(i);
    }
  }
  const auto level = [this](std::size_t i) { return levels_[i].value_or(0); };
  std::ranges::sort(by_level_, std::greater(), level);
  double least = 1.0;  // The lowest probability of the higher levels.
  double least_of_level = 1.0;
  for (std::size_t k = 0; k < by_level_.size(); ++k) {
    const std::size_t i = by_level_[k];
    if (k == 0 || level(i) != level(by_level_[k - 1])) {
      least = std::min(least, least_of_level);
    }
    const double probability = drawn.probabilities()[i];
    least_of_level = std::min(least_of_level, probability);
    if (probability > least * (1.0 + kTolerance)) {
      findings_.add(Finding::WrongPriority, describe_key(drawn.keys()[i]) + ", level " +
                                                std::to_string(level(i)) +
                                                ", is more likely than one of higher priority");
      return;
    }
  }
}

PriorityCheck::Level PriorityCheck::known_level(reprise::ItemKey key, const CheckedItem& item,
                                                std::span<const KnownPriorities> known,
                                                std::optional<std::size_t> learner_index) const {
  if (!item.correct) {
    return std::nullopt;
  }
  const std::size_t owner = owner_of(item.hash, learners_);
  if (learner_index && *learner_index != owner) {
    return std::nullopt;
  }
  const std::optional<std::uint32_t> updated = known[owner].level(key);
  if (updated == KnownPriorities::kRemoved) {
    findings_.add(Finding::DrawnTooOften, item.name.words() + " was drawn after its removal");
    return std::nullopt;
  }
  return updated ? updated : known_first_level(item, reach_);
}

void PriorityCheck::check_run(const Drawn& drawn, Run run, std::optional<std::size_t> exponent,
                              bool& may_be_two_locks) {
  check_zeros(drawn, run);
  const auto misfits_with = [&](std::size_t e) {
    const Misfits found = misfits(drawn, run, e);
    const bool two_locks = found.count != 0 && may_be_two_locks &&
                           misfits(drawn, {found.index, run.end}, e).count == 0;
    may_be_two_locks = may_be_two_locks && !two_locks;
    return two_locks ? Misfits() : found;
  };
  Misfits least = misfits_with(exponent.value_or(0));
  for (std::size_t e = 1; !exponent && least.count != 0 && e < kAlphas.size(); ++e) {
    Misfits other = misfits_with(e);
    if (other.count < least.count) {
      least = std::move(other);
    }
  }
  for (std::size_t i = 0; i < least.count; ++i) {
    findings_.add(Finding::WrongPriority, least.first);
  }
}

void PriorityCheck::check_zeros(const Drawn& drawn, Run run) {
  for (std::size_t i = run.begin; i < run.end && draw_rule_ != DrawRule::Uniform; ++i) {
    if (levels_[i] == 0 && std::isfinite(rate_of(drawn, i))) {
      // Each draw counts, because an update to 0 that went astray gave another item a wrong weight.
      findings_.add(Finding::ZeroWeightDraw, describe_key(drawn.keys()[i]));
    }
  }
}

PriorityCheck::Misfits PriorityCheck::misfits(const Drawn& drawn, Run run,
                                              std::size_t exponent) const {
  Misfits found;
  double reference = 0.0;
  std::size_t known = 0;
  for (std::size_t i = run.begin; i < run.end; ++i) {
    const Level level = draw_rule_ == DrawRule::Uniform ? Level(1) : levels_[i];
    const double rate = rate_of(drawn, i);
    if (!level || *level == 0 || !std::isfinite(rate)) {
      continue;
    }
    const double ratio = rate / weight_of_level_[exponent][*level];
    reference = known++ == 0 ? ratio : reference;
    if (!(std::abs(ratio - reference) <= kTolerance * reference) && found.count++ == 0) {
      found.index = i;
      found.first = describe_key(drawn.keys()[i]) + ", item " + std::to_string(i) + " of [" +
                    std::to_string(run.begin) + ", " + std::to_string(run.end) + "), level " +
                    std::to_string(*level) + ": its weight is " +
                    std::to_string(ratio / reference) + " times what it should be";
    }
  }
  // If the first item is the wrong one, all others differ from it; so the smaller group is counted.
  found.count = std::min(found.count, known - std::min(found.count, known - 1));
  return found;
}

void PriorityCheck::check_importance(const Drawn& drawn) {
  if (!drawn.normalised_by_batch) {
    return;
  }
  if (const float largest = std::ranges::max(drawn.weights()); largest != 1.0F) {
    findings_.add(Finding::WrongPriority, "largest importance weight " + std::to_string(largest));
  }
  // The parts were drawn at different moments, so each has its own number of items N.
  check_importance(drawn, {0, drawn.second_part});
  check_importance(drawn, {drawn.second_part, drawn.size()});
}

void PriorityCheck::check_importance(const Drawn& drawn, Run part) {
  if (part.begin == part.end) {
    return;
  }
  const std::size_t size = part.end - part.begin;
  const auto weights = drawn.weights().subspan(part.begin, size);
  const auto probabilities = drawn.probabilities().subspan(part.begin, size);
  const double largest = *std::ranges::max_element(weights);
  const double least = *std::ranges::min_element(probabilities);
  const std::size_t step = std::max<std::size_t>(1, size / kWeightsChecked);
  for (std::size_t i = 0; i < size; i += step) {
    const double expected =
        largest * std::pow(least / probabilities[i], static_cast<double>(kBeta));
    if (!(std::abs(static_cast<double>(weights[i]) - expected) <= 1e-5)) {
      findings_.add(Finding::WrongPriority, "importance weight " + std::to_string(weights[i]) +
                                                ", expected " + std::to_string(expected));
    }
  }
}

}  // namespace stress
