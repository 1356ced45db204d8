#pragma once

#include <reprise/reprise.hpp>

#include "world.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace reprise::test {

/// An item as everybody can name it: its first step.
struct ItemId {
  std::uint64_t episode = 0;
  std::uint64_t position = 0;

  friend auto operator<=>(const ItemId&, const ItemId&) = default;
};

/// What a batch should hold for one item.
struct ExpectedWindow {
  std::vector<Frame> now;
  std::vector<Frame> next;
  StepData step;
  double returns = 0.0;
  double returns_scale = 0.0;  ///< Sum of the absolute values summed: what rounding is relative to.
  double discount = 0.0;
  std::uint32_t length = 0;
};

/// The whole contract of a buffer in one thread and the plainest code: episodes are kept whole,
/// items are a map in the order in which they were decided, and windows are computed by loops.
///
/// It takes each call as ingested at once, so a test that relies on what new items weigh calls
/// `ReplayBuffer::size` after each commit. Which items remain is modelled first in, first out,
/// which the buffer promises for one writer and one shard.
class Model {
 public:
  Model(const Transitions& window, const Proportional& selector, std::size_t capacity);

  void begin_episode(std::uint64_t episode, const Frame& first);
  [[nodiscard]] std::size_t completing(std::uint64_t episode, End end) const;
  void commit(std::uint64_t episode, const StepData& step, const Frame& next, End end,
              std::span<const float> priorities = {});
  /// What destroying the writer or beginning another episode does to an open episode.
  void truncate(std::uint64_t episode);
  void set_priority(ItemId item, float priority);

  [[nodiscard]] std::size_t size() const { return items_.size(); }
  [[nodiscard]] std::uint64_t committed() const { return committed_; }
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }
  [[nodiscard]] bool resident(ItemId item) const { return order_.contains(item); }
  [[nodiscard]] std::vector<ItemId> residents() const;
  [[nodiscard]] float priority(ItemId item) const { return items_.at(order_.at(item)).priority; }

  [[nodiscard]] double weight(float priority) const;
  [[nodiscard]] double total_weight() const;
  /// The smallest weight above 0, else 0.
  [[nodiscard]] double least_weight() const;

  [[nodiscard]] ExpectedWindow window(ItemId item) const;

 private:
  struct Episode {
    std::vector<Frame> observations;  ///< One more than steps.
    std::vector<StepData> steps;
    std::optional<End> end;
    std::size_t decided = 0;
  };
  struct Item {
    ItemId id;
    float priority = 1.0F;
  };

  void decide(std::uint64_t episode, std::span<const float> priorities);
  [[nodiscard]] std::vector<Frame> stack(const Episode& episode, std::size_t position) const;
  [[nodiscard]] float initial_priority() const;

  const Transitions window_;
  const Proportional selector_;
  const std::size_t capacity_;
  std::map<std::uint64_t, Episode> episodes_;
  std::map<std::uint64_t, Item> items_;  ///< By the order in which they were decided.
  std::map<ItemId, std::uint64_t> order_;
  std::uint64_t next_item_number_ = 0;
  std::uint64_t committed_ = 0;
  std::uint64_t evicted_ = 0;
  float highest_seen_ = 0.0F;  ///< Of any item ever; meaningless before the first.
};

}  // namespace reprise::test
