#include "checks/order_check.hpp"

#include "program/strategies.hpp"
#include "testing/library.hpp"

namespace stress {

void OrderCheck::check(const Drawn& drawn, CheckedItems items,
                       std::span<const std::optional<std::uint32_t>> levels) {
  if (in_order(draw_rule_) || drawn.without_replacement) {
    check_repeats(drawn);
  }
  if (drawn.is_epoch) {
    check_pass(drawn);
  }
  if (!in_order(draw_rule_)) {
    return;
  }
  check_certain(drawn);
  if (draw_rule_ == DrawRule::Oldest || draw_rule_ == DrawRule::Youngest) {
    check_by_age(drawn, items);
  } else {
    check_by_priority(drawn, levels);
  }
}

void OrderCheck::check_repeats(const Drawn& drawn) {
  sorted_.assign(drawn.keys().begin(), drawn.keys().end());
  std::ranges::sort(sorted_);
  const auto twice = std::ranges::adjacent_find(sorted_);
  if (twice != sorted_.end()) {
    findings_.add(Finding::WrongOrder, describe_key(*twice) + " is in a batch twice");
  }
}

/// No key comes twice in a pass. A batch that ends a pass may also have items of the next pass. The
/// check cannot tell which, so it reports no repeats in such a batch.
void OrderCheck::check_pass(const Drawn& drawn) {
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (!pass_.insert(drawn.keys()[i].bits).second && drawn.passes == passes_) {
      findings_.add(Finding::WrongOrder, describe_key(drawn.keys()[i]) + " comes twice in a pass");
    }
    if (drawn.weights()[i] != 1.0F) {
      findings_.add(Finding::WrongPriority, "an item of a pass has an importance weight of " +
                                                std::to_string(drawn.weights()[i]));
    }
  }
  if (drawn.passes != passes_) {
    passes_ = drawn.passes;
    pass_.clear();
  }
}

void OrderCheck::check_certain(const Drawn& drawn) {
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (drawn.probabilities()[i] != 1.0 || drawn.weights()[i] != 1.0F) {
      findings_.add(Finding::WrongPriority, "an item drawn in order has probability " +
                                                std::to_string(drawn.probabilities()[i]) +
                                                " and weight " +
                                                std::to_string(drawn.weights()[i]));
      return;
    }
  }
}

void OrderCheck::check_by_age(const Drawn& drawn, CheckedItems items) {
  if (!order_spans_batches_) {
    last_.clear();
  }
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (!items[i].correct) {
      continue;
    }
    const StepName& id = items[i].name;
    const std::uint64_t step = std::uint64_t{id.episode} << 32U | id.position;
    const auto [place, first] = last_.try_emplace(id.writer, step);
    const bool in_order =
        first || (draw_rule_ == DrawRule::Oldest ? place->second < step : place->second > step);
    place->second = step;
    if (!in_order) {
      findings_.add(Finding::WrongOrder, "writer " + std::to_string(id.writer) + ", episode " +
                                             std::to_string(id.episode) + ", position " +
                                             std::to_string(id.position) +
                                             " comes behind a step that should follow it");
    }
  }
}

void OrderCheck::check_by_priority(const Drawn& drawn,
                                   std::span<const std::optional<std::uint32_t>> levels) {
  std::optional<std::uint32_t> last;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const std::optional<std::uint32_t> level = levels[i];
    if (!level) {
      continue;
    }
    if (last && (draw_rule_ == DrawRule::Highest ? *last < *level : *last > *level)) {
      findings_.add(Finding::WrongOrder, describe_key(drawn.keys()[i]) + ": level " +
                                             std::to_string(*level) + " comes behind " +
                                             std::to_string(*last));
    }
    last = level;
  }
}

}  // namespace stress
