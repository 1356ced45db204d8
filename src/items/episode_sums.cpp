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

/// Adds up the weights of episodes, block by block of the episode index: first the blocks of the
/// items and those after them, then those before. Each step takes the lock of each shard once.
/// Scratch is written before it is read, so it is not initialised.
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
    walk(0, 1);
    walk(1, std::uint64_t{0} - 1);
    for (const Sum& sum : std::span(sums_).first(found_)) {
      after[sum.item] = sum.of.after;
      totals[sum.item] = sum.of.upto + sum.of.after;
    }
    return found_;
  }

 private:
  struct Sum {
    std::uint32_t item;   ///< The index of its key.
    std::uint64_t empty;  ///< Blocks without an item since the last one with any.
    shard::EpisodeSums of;
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

  /// Adds up the blocks which are `first` steps, `first` + 1 steps, ... away from that of the item,
  /// until there are no more. `step` is 1 or, modulo 2^64, -1: a block number below 0 wraps to one
  /// so high that no episode has it.
  void walk(std::uint64_t first, std::uint64_t step) noexcept {
    std::size_t going = found_;
    for (std::uint32_t i = 0; i < found_; ++i) {
      going_[i] = i;
      sums_[i].empty = 0;
    }
    // No episode has items in more blocks than there are chunks, but its writer may add blocks
    // meanwhile.
    const std::uint64_t most = (max_empty_blocks_ + 1) * core_.store().chunks();
    for (std::uint64_t away = first; going != 0 && away <= most; ++away) {
      const std::span<std::uint32_t> now = std::span(going_).first(going);
      for (const std::uint32_t i : now) {
        ++sums_[i].empty;
      }
      for (std::size_t s = 0; s < core_.shards().size(); ++s) {
        const ShardSet::Lock shard(core_.shards(), s);
        for (const std::uint32_t i : now) {
          shard::EpisodeSums& sum = sums_[i].of;
          const std::uint64_t block = sum.position / core_.store().chunk_rows() + away * step;
          if (shard->add_up(selector_, block, sum)) {
            sums_[i].empty = 0;
          }
        }
      }
      going = static_cast<std::size_t>(
          std::ranges::partition(
              now, [this](std::uint32_t i) { return sums_[i].empty <= max_empty_blocks_; })
              .begin() -
          now.begin());
    }
  }

  buffer::BufferCore& core_;
  const std::size_t selector_;
  const std::uint64_t
      max_empty_blocks_;  ///< Blocks without an item that may lie between two items.
  std::size_t found_ = 0;
  std::array<Sum, kItemsPerBlock> sums_;  ///< The sums of the items that were found.
  std::array<std::uint32_t, kItemsPerBlock> going_;
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
