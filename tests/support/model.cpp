#include "model.hpp"

#include <algorithm>
#include <cmath>

namespace reprise::test {

Model::Model(const Transitions& window, const Proportional& selector, std::size_t capacity)
    : window_(window), selector_(selector), capacity_(capacity) {}

void Model::begin_episode(std::uint64_t episode, const Frame& first) {
  episodes_[episode].observations.push_back(first);
}

std::size_t Model::completing(std::uint64_t episode, End end) const {
  const Episode& open = episodes_.at(episode);
  const std::size_t steps = open.steps.size() + 1;
  if (end != End::Continue) {
    return steps - open.decided;
  }
  return steps >= window_.n_step ? 1 : 0;
}

void Model::commit(std::uint64_t episode, const StepData& step, const Frame& next, End end,
                   std::span<const float> priorities) {
  Episode& open = episodes_.at(episode);
  open.steps.push_back(step);
  open.observations.push_back(next);
  ++committed_;
  if (end != End::Continue) {
    open.end = end;
  }
  decide(episode, priorities);
}

void Model::truncate(std::uint64_t episode) {
  episodes_.at(episode).end = End::Truncated;
  decide(episode, {});
}

void Model::decide(std::uint64_t episode, std::span<const float> priorities) {
  Episode& open = episodes_.at(episode);
  std::size_t decided = open.steps.size();
  if (!open.end) {
    decided = decided >= window_.n_step ? decided - window_.n_step + 1 : 0;
  }
  // One rule for all items of a call: they enter at the same moment.
  const float initial = initial_priority();
  for (std::size_t i = 0; open.decided < decided; ++i, ++open.decided) {
    const ItemId id{episode, open.decided};
    const float priority = priorities.empty() ? initial : priorities[i];
    highest_seen_ = std::max(highest_seen_, priority);
    order_[id] = next_item_number_;
    items_[next_item_number_++] = {id, priority};
  }
  while (items_.size() > capacity_) {
    order_.erase(items_.begin()->second.id);
    items_.erase(items_.begin());
    ++evicted_;
  }
}

void Model::set_priority(ItemId item, float priority) {
  items_.at(order_.at(item)).priority = priority;
  highest_seen_ = std::max(highest_seen_, priority);
}

std::vector<ItemId> Model::residents() const {
  std::vector<ItemId> all;
  for (const auto& [order, item] : items_) {
    all.push_back(item.id);
  }
  return all;
}

float Model::initial_priority() const {
  if (selector_.initial == InitialPriority::Constant) {
    return selector_.initial_constant;
  }
  float highest = highest_seen_;
  if (selector_.initial == InitialPriority::MaximumInBuffer) {
    highest = 0.0F;
    for (const auto& [order, item] : items_) {
      highest = std::max(highest, item.priority);
    }
  }
  // A maximum that could never be drawn counts as none, or nothing would ever be drawn again.
  const bool none = next_item_number_ == 0 ||
                    (selector_.initial == InitialPriority::MaximumInBuffer && items_.empty());
  return !none && weight(highest) > 0.0 ? highest : 1.0F;
}

double Model::weight(float priority) const {
  const double base = static_cast<double>(priority) + static_cast<double>(selector_.epsilon);
  return static_cast<double>(
      static_cast<float>(std::pow(base, static_cast<double>(selector_.alpha))));
}

double Model::total_weight() const {
  double total = 0.0;
  for (const auto& [order, item] : items_) {
    total += weight(item.priority);
  }
  return total;
}

double Model::least_weight() const {
  double least = 0.0;
  for (const auto& [order, item] : items_) {
    const double weighed = weight(item.priority);
    if (weighed > 0.0 && (least <= 0.0 || weighed < least)) {
      least = weighed;
    }
  }
  return least;
}

std::vector<Frame> Model::stack(const Episode& episode, std::size_t position) const {
  std::vector<Frame> frames;
  for (std::size_t back = window_.frame_stack; back-- > 0;) {
    if (back <= position) {
      frames.push_back(episode.observations[position - back]);
    } else if (window_.stack_start == StackStart::RepeatFirst) {
      frames.push_back(episode.observations.front());
    } else {
      frames.emplace_back();
    }
  }
  return frames;
}

ExpectedWindow Model::window(ItemId item) const {
  const Episode& episode = episodes_.at(item.episode);
  const auto position = static_cast<std::size_t>(item.position);
  const std::size_t left = episode.steps.size() - position;
  const std::size_t length = std::min<std::size_t>(left, window_.n_step);

  ExpectedWindow expected;
  expected.length = static_cast<std::uint32_t>(length);
  expected.now = stack(episode, position);
  expected.next = stack(episode, position + length);
  expected.step = episode.steps[position];
  expected.discount = 1.0;
  for (std::size_t k = 0; k < length; ++k) {
    const StepData& step = episode.steps[position + k];
    const double term = expected.discount * static_cast<double>(step.reward);
    expected.returns += term;
    expected.returns_scale += std::abs(term);
    expected.discount *= static_cast<double>(window_.discount) * static_cast<double>(step.discount);
  }
  if (length == left && episode.end == End::Terminated) {
    expected.discount = 0.0;
  }
  return expected;
}

}  // namespace reprise::test
