#include "shard/selection.hpp"

#include <algorithm>
#include <array>

namespace reprise::shard {

Selection::Selection(storage::ChunkStore& store, Rules rules, std::size_t leaves)
    : store_(store), rules_(rules), leaves_(leaves) {
  selectors_.reserve(rules.size());
  for (const auto& rule : rules) {
    selectors_.push_back(rule->make_shard_selector(leaves));
  }
}

void Selection::hide(std::span<const std::uint32_t> leaves) noexcept {
  for (const auto& selector : selectors_) {
    selector->hide(leaves);
  }
}

void Selection::enter(const Rows& rows, std::span<const SelectorSummary> others) noexcept {
  const ItemRun run{rows.first_leaf,
                    {store_.priorities(rows.chunk) + rows.begin, rows.size()},
                    store_.item_numbers(rows.chunk, rows.begin)};
  for (std::size_t s = 0; s < size(); ++s) {
    selectors_[s]->insert(run, others[s]);
  }
}

void Selection::leave(const Rows& rows) noexcept {
  for (const auto& selector : selectors_) {
    selector->erase(rows.first_leaf, rows.size());
  }
}

void Selection::drop(std::span<const std::uint32_t> leaves) noexcept {
  // Weights become 0 before the items are hidden. A selector might hide an item and keep its
  // weight, and would then take it for the largest weight in the buffer.
  static constexpr std::array<float, kItemsAtATime> kNothing{};
  for (const auto& selector : selectors_) {
    selector->update(leaves, std::span(kNothing).first(leaves.size()));
  }
  hide(leaves);
}

void Selection::removed(std::uint32_t leaf, bool exhausted) noexcept {
  if (!exhausted) {
    drop({&leaf, 1});
  }
}

void Selection::store(std::span<const std::uint32_t> leaves, ShardImage& image,
                      std::size_t at) const noexcept {
  for (std::size_t s = 0; s < size(); ++s) {
    selectors_[s]->store(leaves, {image.stored[s].data() + at, leaves.size()});
  }
}

void Selection::restore(std::span<const std::uint32_t> leaves, const ShardImage& image,
                        std::size_t at) noexcept {
  std::array<float, kItemsAtATime> values;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t s = 0; s < size(); ++s) {
    const float* const stored = image.stored[s].data() + at;
    std::transform(stored, stored + leaves.size(), values.begin(),
                   [](float value) { return value == kRemoved ? 0.0F : value; });
    selectors_[s]->restore(leaves, std::span(values).first(leaves.size()));
  }
}

Memory Selection::memory() const noexcept {
  Memory memory;
  for (const auto& rule : rules_) {
    memory.by_row += rule->bytes(leaves_);
  }
  return memory;
}

}  // namespace reprise::shard
