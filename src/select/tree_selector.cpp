#include "select/tree_selector.hpp"

#include "storage/chunk_store.hpp"

#include <algorithm>
#include <array>

namespace reprise::select {

void TreeSelector::insert(std::uint32_t first, std::span<const float> priorities,
                          const Summary& elsewhere) noexcept {
  constexpr std::size_t kBlock = 512;
  // Written before it is read, as far as a block goes.
  std::array<float, kBlock> weights;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  // The maximum in the buffer runs along with the items, each of which enters in its turn.
  float in_buffer = std::max(tree_.max(), elsewhere.max);
  highest_seen_ = std::max(highest_seen_, elsewhere.highest_seen);
  while (!priorities.empty()) {
    const std::span<const float> raw = priorities.first(std::min(kBlock, priorities.size()));
    const std::span<float> block = std::span(weights).first(raw.size());
    if (std::all_of(raw.begin(), raw.end(),
                    [](float priority) { return priority == storage::kInitialPriority; })) {
      // The first of them sets the maximum that the others take: one weight for the whole run.
      const float weight = rule_.initial_weight(in_buffer, highest_seen_);
      std::fill(block.begin(), block.end(), weight);
      in_buffer = std::max(in_buffer, weight);
      highest_seen_ = std::max(highest_seen_, weight);
      tree_.assign_run(first, block);
      first += static_cast<std::uint32_t>(raw.size());
      priorities = priorities.subspan(raw.size());
      continue;
    }
    // A mark is weighed as 0 here and replaced below; a run of marks alone needs no weighing.
    if (std::any_of(raw.begin(), raw.end(), [](float priority) { return priority >= 0.0F; })) {
      std::transform(raw.begin(), raw.end(), block.begin(),
                     [](float priority) { return std::max(priority, 0.0F); });
      rule_.weigh(block, block);
    }
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (!storage::is_item(raw[i])) {
        block[i] = 0.0F;
        continue;
      }
      if (raw[i] == storage::kInitialPriority) {
        block[i] = rule_.initial_weight(in_buffer, highest_seen_);
      }
      in_buffer = std::max(in_buffer, block[i]);
      highest_seen_ = std::max(highest_seen_, block[i]);
    }
    tree_.assign_run(first, block);
    first += static_cast<std::uint32_t>(raw.size());
    priorities = priorities.subspan(raw.size());
  }
}

void TreeSelector::update(std::span<const std::uint32_t> leaves,
                          std::span<const float> weights) noexcept {
  if (!rule_.weighted()) {
    return;
  }
  tree_.assign(leaves, weights);
  highest_seen_ = std::max(highest_seen_, tree_.max());
}

}  // namespace reprise::select
