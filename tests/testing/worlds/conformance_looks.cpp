#include "conformance.hpp"
#include "testing/test.hpp"
#include "window_rule.hpp"

// Updates of priorities, and looks at the whole buffer.

namespace reprise::test {

void Conformance::update() {
  std::vector<ItemKey> keys;
  std::vector<float> priorities;
  std::vector<const Item*> updated;
  for (std::size_t i = rng_.between(1, 6); i-- > 0 && !items_.empty();) {
    auto place = std::next(items_.begin(), static_cast<std::ptrdiff_t>(rng_.below(items_.size())));
    Item& item = place->second;
    if (!item.key) {
      continue;  // The item left before `check_buffer` found it.
    }
    keys.push_back(*item.key);
    priorities.push_back(random_priority());
    if (can_be_drawn(item)) {
      item.priority = priorities.back();
      updated.push_back(&item);
    }
  }
  // The last of repeated keys counts; the others have no effect.
  for (const Item* const item : updated) {
    highest_seen_ = std::max(highest_seen_, item->priority);
  }
  const UpdateResult result = replay_.update_priorities(keys, priorities);
  ASSERT_EQ(result.applied, updated.size());
  ASSERT_EQ(result.stale, keys.size() - updated.size());
  applied_ += result.applied;
  stale_ += result.stale;
}

void Conformance::check_buffer() {
  std::uint64_t open = 0;
  for (const Actor& actor : actors_) {
    const auto steps = static_cast<std::uint32_t>(actor.steps(streams()));
    open += WindowRule(setting_.window).undecided_steps(steps);
  }
  decided_steps_ = committed_ - open;
  const std::uint64_t resident = resident_steps();
  std::size_t present = 0;
  std::size_t removed = 0;
  std::size_t outdated_items = 0;
  for (auto& [id, item] : items_) {
    removed += item.removed ? 1U : 0U;
    if (item.gone) {
      continue;
    }
    const std::optional<ItemKey> key = replay_.episodes().find(id.episode, id.position);
    ASSERT_TRUE(!key || !item.key || *key == *item.key) << "a key changed";
    item.gone = !key;
    item.key = key ? key : item.key;
    present += key ? 1U : 0U;
    outdated_items += key && outdated(item) ? 1U : 0U;
  }
  // If each step begins an item, `size` counts items, else steps. The steps of removed items may or
  // may not count, because they stay until the remover evicts their chunk.
  const bool items = std::holds_alternative<Transitions>(setting_.window);
  ASSERT_LE(replay_.size(), items ? present : resident);
  ASSERT_GE(replay_.size(),
            items ? present : resident - std::min<std::uint64_t>(removed, resident));
  const Stats stats = replay_.stats();
  ASSERT_EQ(stats.committed_steps, committed_);
  ASSERT_EQ(stats.pending_steps, open);
  ASSERT_EQ(stats.resident_steps, resident);
  ASSERT_EQ(stats.evicted_steps, decided_steps_ - resident);
  ASSERT_EQ(stats.queued_chunks, 0U);
  ASSERT_EQ(stats.retired_pinned, 0U) << "no call is under way";
  ASSERT_EQ(stats.items, drawable().size());
  ASSERT_EQ(stats.version, static_cast<std::uint64_t>(version_));
  ASSERT_EQ(stats.ever_outdated_items, outdated_count_);
  ASSERT_GE(stats.outdated_items, outdated_items);
  ASSERT_LE(stats.outdated_items, outdated_items + removed);
  ASSERT_EQ(stats.sampled_items, sampled_);
  ASSERT_EQ(stats.applied_updates, applied_);
  ASSERT_EQ(stats.stale_updates, stale_);
  check_eviction_order();
}

void Conformance::close() {
  if (testing::Test::HasFailure()) {
    return;
  }
  replay_.close();
  ASSERT_EQ(sampler_.sample(1, kNoWait).status().code, SampleStatus::Code::Closed);
  for (Actor& actor : actors_) {
    if (actor.episode && !actor.held) {
      write_step(actor);
    }
    if (actor.episode) {
      ASSERT_EQ(actor.writer->commit(), CommitStatus::Closed);
    }
    actor.writer.reset();
  }
  (void)replay_.size();
  const Stats stats = replay_.stats();
  ASSERT_EQ(stats.committed_steps, committed_);
  ASSERT_EQ(stats.resident_steps + stats.excess_steps + stats.evicted_steps + stats.pending_steps,
            committed_);
  ASSERT_LE(stats.resident_steps, options_.capacity_steps);
}

}  // namespace reprise::test
