#include "sampler/epoch_draw.hpp"

#include "buffer/keys_by_shard.hpp"

#include <algorithm>

namespace reprise::sampler {
namespace {

/// Rows that are listed under one lock.
constexpr std::uint32_t kRowsAtATime = std::uint32_t{1} << 16U;

}  // namespace

void EpochDraw::reserve(std::size_t n) {
  if (items_.size() == 0) {
    // A shard's slots are listed once per pass, so no list is longer, whatever comes and goes
    // meanwhile.
    items_ = base::LazyArray<ItemKey>(core_.store().chunks() * core_.store().chunk_rows());
    items_.expect_full(0, core_.options().capacity_steps);
  }
  if (next_.size() < n) {
    next_.resize(n);
    order_.resize(n);
  }
}

bool EpochDraw::draw(const shard::Slots& batch, base::Random& random,
                     std::vector<Run>& runs) noexcept {
  const std::size_t n = batch.size();
  std::size_t begun_at = n;  // Draws made when this call began its last pass.
  for (std::size_t done = 0; done < n;) {
    if (left_ == 0) {
      if (begun_at == done || !begin_pass()) {
        return false;
      }
      begun_at = done;
    }
    const std::size_t drawn = draw_round(batch, done, random, runs);
    std::ranges::fill(batch.probabilities.subspan(done, drawn),
                      1.0 / static_cast<double>(in_pass_));
    done += drawn;
    any_drawn_ = any_drawn_ || drawn != 0;
    passes_ += left_ == 0 && any_drawn_ ? 1U : 0U;
  }
  return true;
}

/// False if there are no items. An item that is there during the whole call is listed.
bool EpochDraw::begin_pass() noexcept {
  const std::uint32_t chunks = std::max(kRowsAtATime / core_.store().chunk_rows(), 1U);
  left_ = 0;
  any_drawn_ = false;
  for (std::size_t s = 0; s < core_.shards().size(); ++s) {
    for (std::uint32_t first = 0, touched = 1; first < touched; first += chunks) {
      const buffer::ShardSet::One shard(core_.shards(), s);
      touched = core_.shards()[s].chunks().touched();
      left_ += shard->list_items(first, std::min(chunks, touched - first), items_.data() + left_);
    }
  }
  in_pass_ = left_;
  return left_ != 0;
}

/// Draws as many of the items left as the batch lacks, but for those that have left the buffer
/// since or weigh nothing. Returns how many were drawn.
std::size_t EpochDraw::draw_round(const shard::Slots& batch, std::size_t done, base::Random& random,
                                  std::vector<Run>& runs) noexcept {
  const std::size_t count = std::min(batch.size() - done, left_);
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(random.uniform() * static_cast<double>(left_));
    next_[i] = items_[at];
    items_[at] = items_[--left_];
  }
  const std::size_t before = done;
  buffer::for_each_shard(std::span(next_).first(count), core_.shards(), order_,
                         [&](std::size_t s, std::span<const std::uint32_t> of_shard) {
                           const shard::Slots slots = batch.sub(done, of_shard.size());
                           std::ranges::transform(of_shard, slots.keys.begin(),
                                                  [this](std::uint32_t i) { return next_[i]; });
                           const buffer::ShardSet::One shard(core_.shards(), s);
                           const shard::Drawn drawn = shard->draw_items(selector_, slots);
                           if (drawn.items != 0) {
                             runs.push_back({s, done, drawn.items, drawn.pins, 0.0});
                           }
                           done += drawn.items;
                         });
  return done - before;
}

}  // namespace reprise::sampler
