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

/// When each of the last steps was appended, counted in steps.
///
/// Steps are kept in blocks of consecutive positions of an episode, and forgotten block by block,
/// the block first to which no step was added for longest. So neither many nor endless episodes
/// take more memory.
///
/// Thread safety: calls run under the owner's lock.
class AppendLog {
 public:
  /// Keeps at least `most_steps` of the last steps if blocks are full, and never many more.
  explicit AppendLog(std::size_t most_steps) noexcept : most_steps_(most_steps) {}

  /// Notes an appended step.
  void note(std::uint64_t episode, std::uint64_t position) {
    const Name name{episode, position / kSteps};
    const auto [found, fresh] = blocks_.try_emplace(name);
    Block& block = found->second;
    if (fresh) {
      try {
        block.place = sequence_.insert(sequence_.end(), name);
      } catch (...) {
        blocks_.erase(found);
        throw;
      }
    }
    sequence_.splice(sequence_.end(), sequence_, block.place);
    if (position != block.first + block.appended.size()) {
      // The step begins a block, or follows steps that were appended without a note.
      steps_ -= block.appended.size();
      block.appended.clear();
      block.first = position;
    }
    block.appended.push_back(appended_++);
    ++steps_;
    while (steps_ > most_steps_ && sequence_.size() > 1) {
      const auto oldest = blocks_.find(sequence_.front());
      steps_ -= oldest->second.appended.size();
      blocks_.erase(oldest);
      sequence_.pop_front();
    }
  }

  /// The number of steps noted after this one; nothing if this one was not noted, or too long ago.
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
  using Name = std::pair<std::uint64_t, std::uint64_t>;
  struct HashOfName {
    [[nodiscard]] std::size_t operator()(const Name& name) const noexcept {
      // Episode ids come in runs: an odd factor keeps them apart from the blocks of one episode.
      return std::hash<std::uint64_t>()(name.first * 0x9E3779B97F4A7C15U + name.second);
    }
  };
  struct Block {
    std::uint64_t first = 0;  ///< Position of appended[0].
    std::vector<std::uint64_t> appended;
    std::list<Name>::iterator place;  ///< Its place in `sequence_`.
  };

  std::size_t most_steps_;
  std::unordered_map<Name, Block, HashOfName> blocks_;
  std::list<Name> sequence_;  ///< The block that got a step last is the last one.
  std::size_t steps_ = 0;
  std::uint64_t appended_ = 0;
};

}  // namespace reprise::metrics
