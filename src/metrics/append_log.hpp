#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::metrics {

/// Knows of each of the last steps how many steps were appended before it.
///
/// Steps are kept in blocks of consecutive positions of an episode, and forgotten block by block:
/// first the block to which no step was added for the longest time. So neither many nor endless
/// episodes take more memory.
///
/// Thread safety: calls run under the owner's lock.
class AppendLog {
 public:
  /// Keeps at least `max_steps` of the last steps if blocks are full, and never many more.
  explicit AppendLog(std::size_t max_steps) noexcept : max_steps_(max_steps) {}

  /// Notes an appended step.
  void note(std::uint64_t episode, std::uint64_t position) {
    const BlockId id{episode, position / kSteps};
    const auto [found, is_new] = blocks_.try_emplace(id);
    Block& block = found->second;
    if (is_new) {
      try {
        block.place = block_order_.insert(block_order_.end(), id);
      } catch (...) {
        blocks_.erase(found);
        throw;
      }
    }
    block_order_.splice(block_order_.end(), block_order_, block.place);
    if (position != block.first + block.appended.size()) {
      // The step begins a block, or follows steps that were appended without a note.
      steps_ -= block.appended.size();
      block.appended.clear();
      block.first = position;
    }
    block.appended.push_back(appended_++);
    ++steps_;
    while (steps_ > max_steps_ && block_order_.size() > 1) {
      const auto oldest = blocks_.find(block_order_.front());
      steps_ -= oldest->second.appended.size();
      blocks_.erase(oldest);
      block_order_.pop_front();
    }
  }

  /// The number of steps noted after this one; nothing if this step was not noted, or was noted too
  /// long ago.
  [[nodiscard]] std::optional<std::uint64_t> age(std::uint64_t episode,
                                                 std::uint64_t position) const {
    const auto found = blocks_.find({episode, position / kSteps});
    if (found == blocks_.end()) {
      return std::nullopt;
    }
    const Block& block = found->second;
    if (position < block.first || position - block.first >= block.appended.size()) {
      return std::nullopt;
    }
    return appended_ - 1 - block.appended[position - block.first];
  }

 private:
  static constexpr std::uint64_t kSteps = 64;  ///< Steps of a full block.
  /// An episode, and the index of the block in it.
  using BlockId = std::pair<std::uint64_t, std::uint64_t>;
  struct BlockIdHash {
    [[nodiscard]] std::size_t operator()(const BlockId& id) const noexcept {
      // Episode ids come in runs: an odd factor keeps them apart from the blocks of one episode.
      return std::hash<std::uint64_t>()(id.first * 0x9E3779B97F4A7C15U + id.second);
    }
  };
  struct Block {
    std::uint64_t first = 0;              ///< Position of appended[0].
    std::vector<std::uint64_t> appended;  ///< How many steps had been appended before each step.
    std::list<BlockId>::iterator place;   ///< Its place in `block_order_`.
  };

  std::size_t max_steps_;
  std::unordered_map<BlockId, Block, BlockIdHash> blocks_;
  std::list<BlockId> block_order_;  ///< The last block is the one that got a step last.
  std::size_t steps_ = 0;
  std::uint64_t appended_ = 0;
};

}  // namespace reprise::metrics
