#pragma once

#include "testing/test.hpp"

#include <list>

namespace reprise::test {

/// The library's removers written as plain lists, for shards so small that a remover compares all
/// of their chunks.
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
    all_steps_ += steps;
    filled_.push_back({.number = chunk,
                       .steps = steps,
                       .last_batch = batches_,
                       .all_chunks_at_fill = ++all_chunks_,
                       .all_steps_at_fill = all_steps_,
                       .mean_draws_at_fill = mean_draws_});
  }
  void emptied(std::uint32_t chunk) {
    filled_.remove_if([chunk](const Chunk& c) { return c.number == chunk; });
    victim_.reset();
  }
  /// Counts a draw for the chunk of each drawn item. Chunks that are not filled do not count.
  void sampled(std::span<const std::uint32_t> chunks) {
    ++batches_;
    std::size_t draws = 0;
    for (const std::uint32_t number : chunks) {
      for (Chunk& chunk : filled_) {
        if (chunk.number == number) {
          ++draws;
          ++chunk.draws;
          chunk.last_batch = batches_;
          chunk.spared = true;
        }
      }
    }
    if (draws != 0) {
      mean_draws_ += static_cast<double>(draws) / static_cast<double>(steps());
    }
  }

  /// Returns the chunk to evict. `order` has all chunks with items, ordered by their first item;
  /// `priority` returns a chunk's mean weight.
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
    std::size_t steps;
    std::size_t
        last_batch;  ///< The batch that drew from the chunk last, or at which it was filled.
    // The model's counts at the moment when the chunk was filled:
    std::size_t all_chunks_at_fill;
    std::size_t all_steps_at_fill;
    double mean_draws_at_fill;
    std::size_t draws = 0;
    bool spared = false;
  };

  [[nodiscard]] std::size_t steps() const {
    std::size_t sum = 0;
    for (const Chunk& chunk : filled_) {
      sum += chunk.steps;
    }
    return sum;
  }

  /// The chunk's draws per step, plus 1, divided by the mean draws per step since the chunk was
  /// filled, plus 1. The quotient is halved for each `steps()` newer steps, and falls linearly in
  /// between.
  [[nodiscard]] double frequency(const Chunk& chunk) const {
    const auto steps_of = static_cast<double>(chunk.steps);
    double share = (static_cast<double>(chunk.draws) + steps_of) /
                   (steps_of * (mean_draws_ - chunk.mean_draws_at_fill + 1.0));
    std::size_t newer = all_steps_ - chunk.all_steps_at_fill;
    for (; newer >= steps(); newer -= steps()) {
      share /= 2.0;
    }
    return share * (1.0 - static_cast<double>(newer) / static_cast<double>(steps()) / 2.0);
  }

  std::uint32_t choose(const std::function<double(std::uint32_t)>& priority) {
    if (rule_ == Rule::SecondChance) {
      // Spares chunks that were drawn from, and the half of the chunks that were filled last.
      while (filled_.front().spared ||
             all_chunks_ - filled_.front().all_chunks_at_fill < filled_.size() / 2) {
        filled_.front().spared = false;
        filled_.splice(filled_.end(), filled_, filled_.begin());
      }
      return filled_.front().number;
    }
    const auto score = [&](const Chunk& chunk) {
      return rule_ == Rule::LeastRecently     ? static_cast<double>(chunk.last_batch)
             : rule_ == Rule::LeastFrequently ? frequency(chunk)
                                              : priority(chunk.number);
    };
    return std::ranges::min_element(filled_, {}, score)->number;
  }

  Rule rule_;
  std::list<Chunk> filled_;  ///< Chunks in the order in which they were filled or spared.
  std::size_t batches_ = 0;
  std::size_t all_chunks_ = 0;  ///< Chunks that were ever filled.
  std::size_t all_steps_ = 0;   ///< Steps of these chunks.
  double mean_draws_ = 0.0;     ///< Draws per step, summed over batches.
  std::optional<std::uint32_t> victim_;
};

}  // namespace reprise::test
