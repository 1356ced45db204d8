#pragma once

#include <reprise/reprise.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <utility>

namespace reprise::test {

/// The removers of the library where a shard has no more chunks than they compare, by plain lists:
/// what they would do if they compared all.
class RemoverModel {
 public:
  enum class Rule { Fifo, SecondChance, LeastRecently, LeastFrequently, LowestPriority };

  explicit RemoverModel(Rule rule) : rule_(rule) {}

  [[nodiscard]] static Remover remover(Rule rule) {
    switch (rule) {
      case Rule::SecondChance:
        return SecondChance{};
      case Rule::LeastRecently:
        return LeastRecentlySampled{.candidates = 256};
      case Rule::LeastFrequently:
        return LeastFrequentlySampled{.candidates = 256};
      case Rule::LowestPriority:
        return LowestPriority{.candidates = 256};
      default:
        return Fifo{};
    }
  }

  void filled(std::uint32_t chunk, std::size_t steps) {
    filled_.push_back({chunk, steps, steps, batches_, false});
  }
  void emptied(std::uint32_t chunk) {
    filled_.remove_if([chunk](const Chunk& c) { return c.number == chunk; });
    victim_.reset();
  }
  /// One chunk per item drawn; those that are not filled do not count.
  void sampled(std::span<const std::uint32_t> chunks) {
    ++batches_;
    for (const std::uint32_t number : chunks) {
      for (Chunk& chunk : filled_) {
        if (chunk.number == number) {
          ++chunk.draws;
          ++draws_;
          chunk.last_batch = batches_;
          chunk.spared = true;
        }
      }
    }
    std::size_t steps = 0;
    for (const Chunk& chunk : filled_) {
      steps += chunk.steps;
    }
    if (draws_ >= steps) {
      draws_ = 0;
      for (Chunk& chunk : filled_) {
        chunk.draws /= 2;
      }
    }
  }

  /// `order` are all chunks with items, by their first; `priority` is the average weight of one.
  [[nodiscard]] std::uint32_t victim(const std::list<std::uint32_t>& order,
                                     const std::function<double(std::uint32_t)>& priority) {
    if (rule_ == Rule::Fifo || filled_.empty()) {
      return order.front();
    }
    if (!victim_) {
      victim_ = choose(priority);
    }
    return *victim_;
  }

 private:
  struct Chunk {
    std::uint32_t number;
    std::size_t steps;  ///< When it was filled.
    std::size_t draws;
    std::size_t last_batch;
    bool spared;
  };

  std::uint32_t choose(const std::function<double(std::uint32_t)>& priority) {
    if (rule_ == Rule::SecondChance) {
      while (filled_.front().spared) {
        filled_.front().spared = false;
        filled_.splice(filled_.end(), filled_, filled_.begin());
      }
      return filled_.front().number;
    }
    const auto score = [&](const Chunk& chunk) {
      return rule_ == Rule::LeastRecently ? static_cast<double>(chunk.last_batch)
             : rule_ == Rule::LeastFrequently
                 ? static_cast<double>(chunk.draws) / static_cast<double>(chunk.steps)
                 : priority(chunk.number);
    };
    return std::ranges::min_element(filled_, {}, score)->number;
  }

  Rule rule_;
  std::list<Chunk> filled_;  ///< In the order in which they were filled or spared.
  std::size_t batches_ = 0;
  std::size_t draws_ = 0;  ///< Since counts were halved.
  std::optional<std::uint32_t> victim_;
};

}  // namespace reprise::test
