#include "sampler/epoch_draw.hpp"

#include "buffer/keys_by_shard.hpp"

#include <algorithm>
#include <utility>

namespace reprise::sampler {
namespace {

/// How many rows of a shard are listed before its lock is released for other threads.
constexpr std::uint32_t kRowsAtATime = std::uint32_t{1} << 16U;

}  // namespace

void EpochDraw::reserve(Drawing& drawing) {
  const std::size_t n = drawing.slots.size();
  drawing.runs.reserve(n);
  if (items_.size() == 0) {
    // A pass lists each slot of a shard at most once, so the list needs no more elements than there
    // are slots.
    items_ = base::LazyArray<ItemKey>(shards_.slots());
    items_.expect_full(0, shards_.capacity());
  }
  if (next_.size() < n) {
    places_.resize(n);
    next_.resize(n);
    keys_.resize(n);
    order_.resize(n);
  }
}

DrawPlan::Outcome EpochDraw::draw(Drawing& drawing, base::Random& random) {
  const std::size_t n = drawing.slots.size();
  std::size_t begun_at = n;  // How many draws were made when this call began its last pass.
  for (std::size_t done = 0; done < n;) {
    if (left_ == 0) {
      if (begun_at == done || !begin_pass()) {
        drawing.give_back(shards_);
        return without_weight();  // A whole pass found no item.
      }
      begun_at = done;
    }
    const std::size_t drawn = draw_round(drawing, random);
    std::ranges::fill(drawing.slots.probabilities.subspan(done, drawn),
                      1.0 / static_cast<double>(in_pass_));
    done += drawn;
    any_drawn_ = any_drawn_ || drawn != 0;
    if (left_ == 0 && any_drawn_) {
      ++passes_;
    }
  }
  return Outcome::Drawn;
}

/// Begins a pass: lists the items that are in the buffer during the whole call, and perhaps some
/// that come or leave meanwhile. Returns false if no item was listed.
bool EpochDraw::begin_pass() noexcept {
  const std::uint32_t chunks = std::max(kRowsAtATime / shards_.chunk_rows(), 1U);
  left_ = 0;
  any_drawn_ = false;
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    for (std::uint32_t first = 0, touched = 1; first < touched; first += chunks) {
      const buffer::ShardSet::Lock shard(shards_, s);
      touched = shards_[s].chunks().touched();
      left_ += shard->list_items(first, std::min(chunks, touched - first), items_.data() + left_);
    }
  }
  in_pass_ = left_;
  return left_ != 0;
}

/// Takes as many of the listed keys as the batch lacks items, and draws those items that are still
/// in the buffer and have weight. Returns how many were drawn.
std::size_t EpochDraw::draw_round(Drawing& drawing, base::Random& random) noexcept {
  const std::size_t before = drawing.done();
  const std::size_t count = std::min(drawing.slots.size() - before, left_);
  for (std::size_t i = 0; i < count; ++i) {
    places_[i] = static_cast<std::size_t>(random.uniform() * static_cast<double>(left_ - i));
    __builtin_prefetch(&items_[places_[i]], 1);
  }
  for (std::size_t i = 0; i < count; ++i) {
    next_[i] = std::exchange(items_[places_[i]], items_[--left_]);
  }
  buffer::for_each_shard(std::span(next_).first(count), shards_, order_,
                         [&](std::size_t s, std::span<const std::uint32_t> of_shard) {
                           const std::size_t done = drawing.done();
                           shard::Slots slots = drawing.slots.sub(done, of_shard.size());
                           // Other processes may change the memory of the batch, so keys are not
                           // read from there.
                           const std::span<ItemKey> batch = slots.keys;
                           slots.keys = std::span(keys_).first(of_shard.size());
                           std::ranges::transform(of_shard, slots.keys.begin(),
                                                  [this](std::uint32_t i) { return next_[i]; });
                           const buffer::ShardSet::Lock shard(shards_, s);
                           const shard::Drawn drawn = shard->draw_items(selector_, slots);
                           std::ranges::copy(slots.keys.first(drawn.items), batch.begin());
                           drawing.add(s, drawn);
                         });
  return drawing.done() - before;
}

}  // namespace reprise::sampler
