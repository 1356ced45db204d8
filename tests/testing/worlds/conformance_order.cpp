#include "conformance.hpp"
#include "testing/test.hpp"

namespace reprise::test {

/// Checks that the batch has exactly the items that come first in the selector's order.
void Conformance::check_order(const std::vector<ItemId>& ids) const {
  std::vector<ItemId> expected = drawable();
  if (draw_rule_ == DrawRule::Youngest) {
    std::ranges::reverse(expected);
  }
  if (draw_rule_ == DrawRule::Oldest || draw_rule_ == DrawRule::Youngest) {
    expected.resize(ids.size());
    ASSERT_EQ(ids, expected);
    return;
  }
  // Equal priorities may come in any order.
  const auto priority = [&](const ItemId& id) { return items_.at(id).priority; };
  std::vector<float> priorities;
  std::vector<float> drawn;
  std::ranges::transform(expected, std::back_inserter(priorities), priority);
  std::ranges::transform(ids, std::back_inserter(drawn), priority);
  std::ranges::sort(priorities);
  if (draw_rule_ == DrawRule::Highest) {
    std::ranges::reverse(priorities);
  }
  priorities.resize(ids.size());
  ASSERT_EQ(drawn, priorities);
}

// ---- fresh items ----

/// Checks that a batch begins with the oldest items that were never drawn, as many as the share
/// asks for. There may be fewer such items in a batch if the others weighed 0 in a draw, as they
/// may have by an unknown rule, or are in other shards than the one that was asked.
void Conformance::check_fresh(const Batch& batch, const std::vector<ItemId>& ids,
                              std::size_t fresh) {
  if (fresh_share_ == 0.0F) {
    ASSERT_EQ(fresh, 0U);
    return;
  }
  const auto share = static_cast<std::size_t>(std::max<long long>(
      std::llround(static_cast<double>(fresh_share_) * static_cast<double>(batch.size())), 1));
  ASSERT_LE(fresh, share);
  std::set<ItemId> first(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(fresh));
  ASSERT_EQ(first.size(), fresh) << "an item is fresh twice";
  const bool one_queue = options_.shards == 1 && writer_count_ == 1;
  const std::map<ItemId, double> now = weights();
  const bool some_weigh_nothing = std::ranges::any_of(now, [&](const auto& each) {
    const Item& item = items_.at(each.first);
    return item.draws == 0 && !item.passed_over && !(each.second > 0.0);
  });
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < fresh; ++i) {
    const Item& item = items_.at(ids[i]);
    ASSERT_EQ(item.draws, 0U) << "it was drawn before";
    ASSERT_GT(now.at(ids[i]), 0.0);
    ASSERT_TRUE(i == 0 || !one_queue || item.order > last);
    last = item.order;
  }
  for (const auto& [id, weight] : now) {
    const Item& item = items_.at(id);
    const bool waits = draw_rule_ != DrawRule::Unknown && item.draws == 0 && !item.passed_over &&
                       weight > 0.0 && !first.contains(id);
    ASSERT_FALSE(waits && fresh < share && (options_.shards == 1 || !some_weigh_nothing))
        << "a fresh item is left out";
    ASSERT_FALSE(waits && one_queue && fresh != 0 && item.order < last) << "an older item waits";
  }
  pass_over(now);
}

/// Notes that after this draw items of weight 0 may no longer count as fresh.
void Conformance::pass_over(const std::map<ItemId, double>& weights) {
  for (const auto& [id, weight] : weights) {
    Item& item = items_.at(id);
    item.passed_over = item.passed_over || !(weight > 0.0);
  }
}

// ---- passes ----

Conformance::Pass Conformance::next_pass(const Pass& pass) const {
  Pass next{.before = pass.before + (pass.drawn ? 1 : 0)};
  for (const ItemId& id : drawable()) {
    next.left[id] = false;
  }
  next.size = next.left.size();
  return next;
}

/// Checks that a pass draws each item once, in any order. The next pass begins when no item is left
/// that is in the buffer and had weight in every draw of the pass. Tests cannot see whether the
/// pass left out an item of weight 0, so `passes_` has every state that is possible. By an unknown
/// rule every item may have weighed 0.
void Conformance::check_pass(const Batch& batch, const std::vector<ItemId>& ids) {
  const std::map<ItemId, double> now = weights();
  const auto weighs = [&](const ItemId& id) { return now.contains(id) && now.at(id) > 0.0; };
  const auto surely_weighs = [&](const ItemId& id) {
    return draw_rule_ != DrawRule::Unknown && weighs(id);
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(weighs(ids[i]));
    ASSERT_EQ(batch.weights()[i], 1.0F);
    std::vector<Pass> states;
    const auto draw_from = [&](Pass pass) {
      if (pass.left.erase(ids[i]) != 0 &&
          batch.probabilities()[i] == 1.0 / static_cast<double>(pass.size)) {
        pass.drawn = true;
        if (std::ranges::find(states, pass) == states.end()) {
          states.push_back(pass);
        }
      }
    };
    for (const Pass& pass : passes_) {
      draw_from(pass);
      if (std::ranges::none_of(pass.left, [&](const auto& item) {
            return !item.second && surely_weighs(item.first);
          })) {
        draw_from(next_pass(pass));
      }
    }
    ASSERT_FALSE(states.empty()) << "an item comes twice in a pass, or another is left out";
    passes_ = states;
  }
  for (Pass& pass : passes_) {
    for (auto& [id, may_be_left_out] : pass.left) {
      may_be_left_out = may_be_left_out || !surely_weighs(id);
    }
  }
}

void Conformance::check_passes(const SampleStatus& status) {
  std::erase_if(passes_, [&](const Pass& pass) {
    const bool certain = pass.drawn && pass.left.empty();
    const bool possible =
        pass.drawn && std::ranges::all_of(pass.left, [](const auto& item) { return item.second; });
    return status.passes < pass.before + (certain ? 1 : 0) ||
           status.passes > pass.before + (possible ? 1 : 0);
  });
  ASSERT_FALSE(passes_.empty()) << status.passes << " passes";
}

/// Ends the pass, because nothing was left to draw. The next pass has no items yet.
void Conformance::end_pass() {
  for (Pass& pass : passes_) {
    pass = {.before = next_pass(pass).before};
  }
}

/// Checks that the oldest items leave first: exactly for one shard and one writer at a time, else
/// to within the steps that writers hold open and a chunk per shard (I13). Exhausted and removed
/// items leave before others.
void Conformance::check_eviction_order() const {
  if (options_.remover.target<Fifo>() == nullptr || options_.max_times_sampled != 0 ||
      options_.max_staleness) {
    return;
  }
  const std::uint64_t oldest =
      options_.capacity_steps + (writer_count_ + options_.shards) * options_.chunk_steps;
  for (const auto& [id, item] : items_) {
    ASSERT_TRUE(item.gone || next_item_number_ - item.order <= oldest)
        << "item " << item.order << " is there at " << next_item_number_;
  }
  if (options_.shards != 1 || writer_count_ != 1) {
    return;
  }
  std::map<std::uint64_t, bool> gone;
  for (const auto& [id, item] : items_) {
    if (!item.removed) {
      gone[item.order] = item.gone;
    }
  }
  bool left = false;
  for (const auto& [order, is_gone] : gone) {
    ASSERT_FALSE(left && is_gone) << "item " << order << " is gone before an older one";
    left = !is_gone;
  }
}

}  // namespace reprise::test
