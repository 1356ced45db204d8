#include "sampler/snapshot_draw.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace reprise::sampler {

/// Calls `call` once per shard, with the leaves and weights of its choices for which `which` is
/// true, if there are any.
template <class Which, class Call>
void SnapshotDraw::by_shard(const All& all, std::span<const Choice> choices, Which which,
                            Call call) noexcept {
  std::fill(counts_.begin(), counts_.end(), 0);
  for (const Choice& choice : choices) {
    counts_[choice.shard] += which(choice) ? 1U : 0U;
  }
  std::inclusive_scan(counts_.begin(), counts_.end(), counts_.begin());
  const std::size_t total = counts_.back();
  for (std::size_t i = choices.size(); i-- > 0;) {
    if (which(choices[i])) {
      const std::size_t place = --counts_[choices[i].shard];
      leaves_[place] = choices[i].leaf;
      weights_[place] = choices[i].weight;
    }
  }
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    const std::size_t end = s + 1 < counts_.size() ? counts_[s + 1] : total;
    if (end != counts_[s]) {
      call(all[s], std::span(leaves_).subspan(counts_[s], end - counts_[s]),
           std::span(weights_).subspan(counts_[s], end - counts_[s]));
    }
  }
}

void SnapshotDraw::hide(const All& all, std::span<const Choice> choices) noexcept {
  const auto hidden = [](const Choice& choice) { return choice.hidden; };
  by_shard(all, choices, hidden, [this](shard::LockedShard& shard, auto leaves, auto) {
    shard.selector(selector_).hide(leaves);
  });
}

void SnapshotDraw::show(const All& all, bool exhausted) noexcept {
  const auto hidden = [exhausted](const Choice& choice) {
    return choice.hidden && (exhausted || !choice.exhausted);
  };
  by_shard(all, chosen_, hidden, [this](shard::LockedShard& shard, auto leaves, auto weights) {
    shard.selector(selector_).show(leaves, weights);
  });
}

void SnapshotDraw::undo(const All& all) noexcept {
  for (const Choice& choice : chosen_) {
    shard::LockedShard& shard = all[choice.shard];
    shard.limit().take_back(choice.leaf);
  }
  show(all, true);
  chosen_.clear();
}

/// Exhausts the items that had their last draw, and shows the other hidden items again. Choices by
/// weight get sorted by shard and leaf.
void SnapshotDraw::settle(const All& all) noexcept {
  const auto before = [](const Choice& a, const Choice& b) {
    return std::tie(a.shard, a.leaf) < std::tie(b.shard, b.leaf);
  };
  // The draws of a single round are sorted already with most selectors.
  if (!ordered_ && !std::is_sorted(chosen_.begin(), chosen_.end(), before)) {
    std::sort(chosen_.begin(), chosen_.end(), before);
  }
  const auto exhausted = [](const Choice& choice) { return choice.exhausted; };
  by_shard(all, chosen_, exhausted,
           [](shard::LockedShard& shard, auto leaves, auto) { shard.exhaust(leaves); });
  if (any_to_show_) {
    show(all, false);
  }
}

/// Writes keys, places, probabilities and pins.
void SnapshotDraw::hand_out(const All& all, const Batch& batch) noexcept {
  if (ordered_) {
    hand_out_ordered(all, batch);
    return;
  }
  std::size_t pins = 0;
  std::size_t begin = 0;
  for (std::size_t s = 0; s < totals_.size(); ++s) {
    shard::LockedShard& shard = all[s];
    std::size_t end = begin;
    for (; end < chosen_.size() && chosen_[end].shard == s; ++end) {
      leaves_[end] = chosen_[end].leaf;
      batch.probabilities[end] =
          probability(static_cast<double>(chosen_[end].weight), chosen_.size());
    }
    const std::size_t count = end - begin;
    batch.pins[s] =
        shard.hand_out(std::span(leaves_).subspan(begin, count), batch.keys.subspan(begin, count),
                       batch.places.subspan(begin, count), batch.pinned.subspan(pins));
    pins += batch.pins[s];
    begin = end;
  }
}

/// Draws in order alternate between shards, so the pins have to be grouped by shard here.
void SnapshotDraw::hand_out_ordered(const All& all, const Batch& batch) noexcept {
  std::fill(batch.pins.begin(), batch.pins.end(), 0);
  for (const Choice& choice : chosen_) {
    ++batch.pins[choice.shard];
  }
  std::exclusive_scan(batch.pins.begin(), batch.pins.end(), counts_.begin(), std::size_t{0});
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    const std::uint32_t s = chosen_[i].shard;
    shard::LockedShard& shard = all[s];
    batch.keys[i] = shard.key(chosen_[i].leaf);
    batch.places[i] = shard.place(chosen_[i].leaf);
    batch.probabilities[i] = 1.0;
    std::uint32_t& pinned = batch.pinned[counts_[s]++];
    pinned = batch.places[i].chunk;
    shard.pin(std::span(&pinned, 1));
  }
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    shard::LockedShard& shard = all[s];
    if (shard.tells_remover()) {
      // counts_ is at the end of each shard's pins now.
      const auto chunks = batch.pinned.subspan(counts_[s] - batch.pins[s], batch.pins[s]);
      std::copy(chunks.begin(), chunks.end(), leaves_.begin());
      shard.tell_remover(std::span(leaves_).first(chunks.size()));
    }
  }
}

}  // namespace reprise::sampler
