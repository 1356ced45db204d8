#pragma once

#include <reprise/item.hpp>
#include <reprise/remover.hpp>
#include <reprise/selectors/fifo.hpp>
#include <reprise/selectors/proportional.hpp>
#include <reprise/selectors/uniform.hpp>

#include "audit.hpp"
#include "shard/budget.hpp"
#include "shard/shard.hpp"
#include "storage/chunk_store.hpp"
#include "storage/doorbell.hpp"
#include "testing/test.hpp"

namespace reprise::shard {

/// A chunk and a row in it.
using Place = std::pair<std::uint32_t, std::uint32_t>;

struct WorldOptions {
  std::size_t shards = 1;
  std::uint32_t chunks = 4;  ///< Chunks per shard.
  std::uint32_t rows = 4;    ///< Rows per chunk.
  std::size_t capacity = 8;
  InitialPriority initial = InitialPriority::MaximumInBuffer;
  Remover remover = Fifo{};
  std::uint32_t max_times_sampled = 0;
  std::size_t max_partial = 4;
};

/// Shards over one store and one budget. The test makes the calls of writers and samplers itself.
/// Selector 0 weighs items by their priority. Selector 1 gives all the same weight, so that a test
/// finds every item by it.
class ShardWorld {
 public:
  static constexpr std::uint32_t kTag = 0x5a5;
  static constexpr std::size_t kByPriority = 0;
  static constexpr std::size_t kUniform = 1;
  static constexpr float kNotAStep = storage::kNotAStep;
  static constexpr float kInitial = storage::kInitialPriority;

  enum class Pins { Taken, None };
  struct Draw {
    double total = 0.0;
    std::vector<ItemKey> keys;
    std::vector<storage::Place> places;
    std::vector<std::uint32_t> pinned;
    std::vector<float> weights;
  };

  explicit ShardWorld(const WorldOptions& options = {})
      : store(options.shards * options.chunks, options.rows, 16),
        budget(options.capacity),
        chunks_(options.chunks) {
    rules_.push_back(Proportional{.alpha = 1.0F, .epsilon = 0.0F, .initial = options.initial}
                         .make_selector_rule());
    rules_.push_back(Uniform{}.make_selector_rule());
    for (std::size_t s = 0; s < options.shards; ++s) {
      const Extent extent{static_cast<std::uint32_t>(s) * options.chunks, options.chunks,
                          options.capacity / options.shards};
      shards_.push_back(
          std::make_unique<Shard>(store, budget, rules_, options.remover, extent, kTag,
                                  Extras{options.max_times_sampled, options.max_partial}));
    }
  }

  [[nodiscard]] Shard& shard(std::size_t s = 0) { return *shards_[s]; }
  [[nodiscard]] std::size_t shard_of(std::uint32_t chunk) const { return chunk / chunks_; }

  /// Writes rows after those in the chunk and publishes them, without ringing the bell.
  void publish(std::uint32_t chunk, std::span<const float> priorities) {
    storage::Chunk& words = store.chunk(chunk);
    std::copy(priorities.begin(), priorities.end(), store.priorities(chunk) + words.cursor);
    words.cursor += static_cast<std::uint32_t>(priorities.size());
    storage::publish(words.bell, words.cursor);
  }
  bool ring(std::uint32_t chunk, Ring what = Ring::News) {
    return shard(shard_of(chunk)).ring(chunk, what);
  }
  bool append(std::uint32_t chunk, std::initializer_list<float> priorities,
              Ring what = Ring::News) {
    publish(chunk, std::span(priorities.begin(), priorities.size()));
    return ring(chunk, what);
  }
  /// Takes a chunk, fills it with items of these priorities, and closes it.
  std::uint32_t add_closed(std::initializer_list<float> priorities, std::size_t s = 0) {
    const std::uint32_t chunk = take(s);
    append(chunk, priorities, Ring::Closing);
    return chunk;
  }
  /// Takes a chunk in the order in which a writer looks for one; kNil if there is none.
  std::uint32_t take(std::size_t s = 0) {
    for (const auto taker : {&ChunkPool::take_open, &ChunkPool::take_recycled}) {
      if (const std::uint32_t chunk = (shard(s).chunks().*taker)(); chunk != storage::kNil) {
        return chunk;
      }
    }
    return take_fresh(s);
  }
  /// Takes a chunk that was never used. In memory this never fails for want of room.
  std::uint32_t take_fresh(std::size_t s = 0) {
    int error = 0;
    const std::uint32_t chunk = shard(s).chunks().take_fresh(error);
    EXPECT_EQ(error, 0);
    return chunk;
  }

  bool ingest(std::size_t s = 0, std::size_t max_chunks = 1000) {
    const std::vector<SelectorSummary> others = summaries_except(s);
    Shard& part = shard(s);
    const base::MutexLock lock(part.mutex);
    const bool left = part.locked().ingest(others, max_chunks);
    part.locked().publish_hints();
    return left;
  }
  /// Evicts from shard s, as if the shards that ought to evict were locked.
  void evict_though_others_are_busy(std::size_t s) {
    const base::MutexLock lock(shard(s).mutex);
    shard(s).locked().evict(Others::Busy);
    shard(s).locked().publish_hints();
  }
  /// Draws stratified items, each from the middle of its part of the total weight, and pins their
  /// chunks if that is asked for.
  Draw draw(std::size_t selector, std::size_t count, std::size_t s = 0, Pins pins = Pins::Taken) {
    Draw result{.keys = std::vector<ItemKey>(count),
                .places = std::vector<storage::Place>(count),
                .pinned = std::vector<std::uint32_t>(pins == Pins::Taken ? count : 0),
                .weights = std::vector<float>(count)};
    std::vector<double> fractions(count);
    std::vector<std::uint32_t> leaves(count);
    for (std::size_t i = 0; i < count; ++i) {
      fractions[i] = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    }
    Shard& part = shard(s);
    const base::MutexLock lock(part.mutex);
    const Drawn drawn = part.locked().draw(
        selector, fractions, {result.keys, result.places, leaves, result.pinned, result.weights});
    result.total = drawn.total;
    result.pinned.resize(drawn.pins);
    return result;
  }
  void unpin(const Draw& draw) {
    for (const std::uint32_t chunk : draw.pinned) {
      shard(shard_of(chunk)).unpin(std::span(&chunk, 1));
    }
  }
  /// The keys of all items in a shard. Leaves nothing pinned. With equal weights, twice as many
  /// stratified draws as items give every item at least once.
  std::vector<ItemKey> keys(std::size_t s = 0) {
    const auto items = static_cast<std::size_t>(total(kUniform, s));
    if (items == 0) {
      return {};
    }
    const Draw all = draw(kUniform, 2 * items, s);
    unpin(all);
    std::vector<ItemKey> keys = all.keys;
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return keys;
  }
  std::set<Place> items(std::size_t s = 0) {
    std::set<Place> places;
    for (const ItemKey key : keys(s)) {
      places.emplace(key.slot() / store.chunk_rows(), key.slot() % store.chunk_rows());
    }
    return places;
  }
  /// Updates weights. Returns how many keys were not stale.
  std::size_t update(std::span<const ItemKey> keys, float weight, std::size_t s = 0) {
    std::vector<float> weights(keys.size(), weight);
    std::vector<std::uint32_t> leaves(keys.size());
    Shard& part = shard(s);
    const base::MutexLock lock(part.mutex);
    const std::size_t live = part.locked().update(kByPriority, keys, weights, leaves);
    part.locked().publish_hints();
    return live;
  }

  /// Counts a draw of each item in these rows. Items that reach the limit become exhausted.
  void count_draws(std::uint32_t chunk, std::initializer_list<std::uint32_t> rows) {
    Shard& part = shard(shard_of(chunk));
    const base::MutexLock lock(part.mutex);
    std::vector<std::uint32_t> exhausted;
    for (const std::uint32_t row : rows) {
      const std::uint32_t leaf = chunk % chunks_ * store.chunk_rows() + row;
      if (part.locked().limit().add(leaf)) {
        exhausted.push_back(leaf);
      }
    }
    part.locked().limit().exhaust(exhausted);
    part.locked().publish_hints();
  }

  /// The total at the last ingest or update.
  [[nodiscard]] double total(std::size_t selector, std::size_t s = 0) {
    return shard(s).hints().summary(selector).total;
  }
  [[nodiscard]] Counters counters(std::size_t s = 0) {
    Shard& part = shard(s);
    const base::MutexLock lock(part.mutex);
    return part.locked().counters();
  }
  [[nodiscard]] bool invariants_hold() {
    return std::all_of(shards_.begin(), shards_.end(), [](const auto& part) {
      Shard& shard = *part;
      const base::MutexLock lock(shard.mutex);
      return Audit::invariants_hold(shard.locked());
    });
  }

  storage::ChunkStore store;
  Budget budget;

 private:
  std::vector<SelectorSummary> summaries_except(std::size_t self) {
    std::vector<SelectorSummary> result(rules_.size());
    for (std::size_t selector = 0; selector < result.size(); ++selector) {
      for (std::size_t s = 0; s < shards_.size(); ++s) {
        if (s != self) {
          const SelectorSummary hint = shard(s).hints().summary(selector);
          result[selector].max = std::max(result[selector].max, hint.max);
          result[selector].highest_seen =
              std::max(result[selector].highest_seen, hint.highest_seen);
        }
      }
    }
    return result;
  }

  const std::uint32_t chunks_;
  std::vector<std::unique_ptr<SelectorRule>> rules_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace reprise::shard
