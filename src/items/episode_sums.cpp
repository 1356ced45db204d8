#include "items/episode_sums.hpp"

#include "base/text.hpp"
#include "buffer/keys_by_shard.hpp"
#include "buffer/update.hpp"
#include "storage/chunk_store.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

namespace reprise::items {
namespace {

using buffer::ShardSet;

/// How many items are added up together, which bounds the scratch on the stack.
constexpr std::size_t kItemsPerBlock = 2048;

/// Adds up the weights of episodes, block by block of the episode index (a block is `chunk_rows`
/// consecutive positions): first the blocks of the items and those after them, then those before.
/// For each block the lock of each shard is taken once. Scratch is written before it is read, so it
/// is not initialised.
class Sums {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
  Sums(buffer::BufferCore& core, std::size_t selector) noexcept
      : core_(core),
        selector_(selector),
        max_empty_blocks_((core.window().max_steps_between_items() - 1) /
                          core.store().chunk_rows()) {}

  std::size_t add_up(std::span<const ItemKey> keys, std::span<double> after,
                     std::span<double> totals) noexcept {
    std::ranges::fill(after, std::numeric_limits<double>::quiet_NaN());
    std::ranges::fill(totals, std::numeric_limits<double>::quiet_NaN());
    find(keys);
    walk(/*first=*/0, kForward);
    walk(/*first=*/1, kBackward);
    for (const Sum& sum : std::span(sums_).first(found_)) {
      after[sum.item] = sum.sums.after;
      totals[sum.item] = sum.sums.upto + sum.sums.after;
    }
    return found_;
  }

 private:
  static constexpr std::uint64_t kForward = 1;
  static constexpr std::uint64_t kBackward = ~std::uint64_t{0};  ///< -1 modulo 2^64.

  struct Sum {
    std::uint32_t item;          ///< The index of its key.
    std::uint64_t empty_blocks;  ///< Blocks since the last block that had items of the episode.
    shard::EpisodeSums sums;
  };

  void find(std::span<const ItemKey> keys) noexcept {
    found_ = 0;
    buffer::for_each_shard(
        keys, core_.shards(), order_, [&](std::size_t s, std::span<const std::uint32_t> order) {
          const ShardSet::Lock shard(core_.shards(), s);
          for (const std::uint32_t i : order) {
            if (const auto place = shard->find(keys[i])) {
              storage::ItemHeader item;
              std::memcpy(&item, core_.store().row(place->chunk, place->row), sizeof(item));
              sums_[found_++] = {i, 0, {item.episode, item.position(), 0.0, 0.0}};
            }
          }
        });
  }

  /// Adds up the blocks that are `first`, `first` + 1, ... blocks away from the item's block, until
  /// the episode has no more. `step` is kForward or kBackward: a block number below 0 wraps to a
  /// number so high that no episode has such a block.
  void walk(std::uint64_t first, std::uint64_t step) noexcept {
    std::size_t walking = found_;
    for (std::uint32_t i = 0; i < found_; ++i) {
      walking_[i] = i;
      sums_[i].empty_blocks = 0;
    }
    // The bound is for a writer that adds blocks meanwhile: no episode has items in more blocks
    // than there are chunks.
    const std::uint64_t max_blocks = (max_empty_blocks_ + 1) * core_.store().chunks();
    for (std::uint64_t away = first; walking != 0 && away <= max_blocks; ++away) {
      const std::span<std::uint32_t> now = std::span(walking_).first(walking);
      for (const std::uint32_t i : now) {
        ++sums_[i].empty_blocks;
      }
      for (std::size_t s = 0; s < core_.shards().size(); ++s) {
        const ShardSet::Lock shard(core_.shards(), s);
        for (const std::uint32_t i : now) {
          shard::EpisodeSums& sum = sums_[i].sums;
          const std::uint64_t block = sum.position / core_.store().chunk_rows() + away * step;
          if (shard->add_up(selector_, block, sum)) {
            sums_[i].empty_blocks = 0;
          }
        }
      }
      walking = static_cast<std::size_t>(
          std::ranges::partition(
              now, [this](std::uint32_t i) { return sums_[i].empty_blocks <= max_empty_blocks_; })
              .begin() -
          now.begin());
    }
  }

  buffer::BufferCore& core_;
  const std::size_t selector_;
  /// Blocks without an item that may lie between two items.
  const std::uint64_t max_empty_blocks_;
  std::size_t found_ = 0;
  std::array<Sum, kItemsPerBlock> sums_;  ///< The sums of the items that were found.
  std::array<std::uint32_t, kItemsPerBlock> walking_;
  std::array<std::uint32_t, kItemsPerBlock> order_;
};

}  // namespace

std::size_t episode_sums(buffer::BufferCore& core, std::span<const ItemKey> keys,
                         std::span<double> after, std::span<double> totals, std::size_t selector) {
  buffer::require_episode_index(core);
  base::require(core.selectors().at(selector).law() == Law::ByWeight, base::Call{"sums"},
                "selector is ", selector,
                ", which does not draw by weight alone; allowed: Uniform, Proportional, "
                "LossAdjusted, or one of your own that does");
  base::require(keys.size() == after.size() && keys.size() == totals.size(), base::Call{"sums"},
                keys.size(), " keys and room for ", after.size(), " and ", totals.size(),
                " sums; allowed: equal counts");
  buffer::check_keys("sums", core, keys);
  core.shards().drain();
  Sums sums(core, selector);
  std::size_t found = 0;
  for (std::size_t done = 0; done < keys.size(); done += kItemsPerBlock) {
    const std::size_t n = std::min(kItemsPerBlock, keys.size() - done);
    found += sums.add_up(keys.subspan(done, n), after.subspan(done, n), totals.subspan(done, n));
  }
  return found;
}

}  // namespace reprise::items
