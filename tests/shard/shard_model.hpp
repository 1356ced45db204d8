#pragma once

#include "shard_world.hpp"
#include "testing/test.hpp"
#include "testing/worlds/remover_model.hpp"

#include <deque>
#include <list>

namespace reprise::shard {

using test::RemoverModel;

/// Plain code for one thread of what shards that share a budget (the capacity) have to do. The test
/// makes the same calls to shards and to the model, and compares them. Weights are whole numbers,
/// so that sums are exact.
class ShardModel {
 public:
  struct Chunk {
    std::vector<float> rows;  ///< The published rows.
    std::size_t ingested = 0;
    std::map<std::uint32_t, float> items;  ///< The weight of each row that is an item.
    std::uint32_t generation = 0;
    std::size_t pins = 0;
    std::uint64_t turn = 0;     ///< The chunk's place in the eviction order: see `ingest_chunk`.
    std::uint64_t rung_at = 0;  ///< The turn that the chunk's last ring got.
    bool has_rung = false;
    bool rung = false;
    bool closing = false;
    bool closed = false;
    bool retired = false;  ///< The chunk is retired, but not free yet.
  };
  /// The model of one shard.
  struct Part {
    std::uint32_t first = 0;      ///< The shard's first chunk.
    std::uint32_t untouched = 0;  ///< The next chunk that was never used.
    std::vector<std::uint32_t> open;
    std::vector<std::uint32_t> free;
    /// Chunks that have rung; first those that the last ingest left over.
    std::deque<std::uint32_t> bells;
    std::list<std::uint32_t> order;  ///< Chunks with items, oldest first.
    std::uint64_t ingested = 0;
    std::uint64_t evicted = 0;
    RemoverModel remover{RemoverModel::Rule::Fifo};
  };

  ShardModel(const WorldOptions& options, RemoverModel::Rule rule)
      : options_(options),
        rule_(rule),
        chunks_(options.shards * options.chunks),
        parts_(options.shards) {
    for (std::size_t s = 0; s < parts_.size(); ++s) {
      parts_[s].first = parts_[s].untouched = static_cast<std::uint32_t>(s) * options.chunks;
      parts_[s].remover = RemoverModel(rule);
    }
  }

  [[nodiscard]] const Part& part(std::size_t s) const { return parts_[s]; }
  [[nodiscard]] const Chunk& chunk(std::uint32_t c) const { return chunks_[c]; }
  [[nodiscard]] std::size_t shard_of(std::uint32_t c) const { return c / options_.chunks; }

  std::uint32_t take(std::size_t s) {
    Part& part = parts_[s];
    for (std::vector<std::uint32_t>* const list : {&part.open, &part.free}) {
      if (!list->empty()) {
        const std::uint32_t chunk = list->back();
        list->pop_back();
        return chunk;
      }
    }
    return part.untouched < part.first + options_.chunks ? part.untouched++ : storage::kNil;
  }
  void leave_open(std::uint32_t c) { parts_[shard_of(c)].open.push_back(c); }
  void publish(std::uint32_t c, std::span<const float> rows) {
    chunks_[c].rows.insert(chunks_[c].rows.end(), rows.begin(), rows.end());
  }
  /// Rings a chunk's bell. Returns false if the chunk was on the list of bells already.
  bool ring(std::uint32_t c, Ring what) {
    chunks_[c].closing = what == Ring::Closing;
    if (chunks_[c].rung) {
      return false;
    }
    chunks_[c].rung = true;
    chunks_[c].rung_at = chunks_[c].has_rung ? next_turn_ : next_turn_++;
    chunks_[c].has_rung = true;
    parts_[shard_of(c)].bells.push_back(c);
    return true;
  }
  /// Ingests at most `max_chunks` chunks. Returns whether bells are left.
  bool ingest(std::size_t s, std::size_t max_chunks) {
    Part& part = parts_[s];
    evict(part);
    // With more steps than this a shard stops ingesting, until others have evicted.
    const std::size_t most =
        options_.capacity + std::max<std::size_t>(options_.rows, options_.capacity / 16);
    for (; max_chunks != 0 && !part.bells.empty() && resident() <= most; --max_chunks) {
      const std::uint32_t chunk = part.bells.front();
      part.bells.pop_front();
      ingest_chunk(part, chunk);
      if (resident() > most) {
        evict(part);
      }
    }
    evict(part);
    return !part.bells.empty();
  }
  /// Tells the remover the chunk of each drawn item.
  void sampled(std::size_t s, std::span<const std::uint32_t> chunks) {
    parts_[s].remover.sampled(chunks);
  }
  void pin(std::uint32_t c) { ++chunks_[c].pins; }
  void unpin(std::uint32_t c) {
    if (--chunks_[c].pins == 0 && chunks_[c].retired) {
      free(c);
    }
  }
  bool update(ItemKey key, float weight) {
    Chunk& chunk = chunks_[key.slot() / options_.rows];
    const auto item = chunk.items.find(key.slot() % options_.rows);
    if (key.generation() != chunk.generation || item == chunk.items.end()) {
      return false;
    }
    item->second = weight;
    return true;
  }

  [[nodiscard]] std::set<Place> items(std::size_t s) const {
    std::set<Place> places;
    for (const std::uint32_t c : parts_[s].order) {
      for (const auto& [row, weight] : chunks_[c].items) {
        places.emplace(c, row);
      }
    }
    return places;
  }
  [[nodiscard]] double total(std::size_t s) const {
    double sum = 0.0;
    for (const std::uint32_t c : parts_[s].order) {
      for (const auto& [row, weight] : chunks_[c].items) {
        sum += static_cast<double>(weight);
      }
    }
    return sum;
  }
  [[nodiscard]] std::size_t resident(std::size_t s) const {
    return static_cast<std::size_t>(parts_[s].ingested - parts_[s].evicted);
  }
  [[nodiscard]] std::size_t resident() const {
    std::size_t sum = 0;
    for (std::size_t s = 0; s < parts_.size(); ++s) {
      sum += resident(s);
    }
    return sum;
  }
  [[nodiscard]] std::size_t retired_pinned(std::size_t s) const {
    const auto first = chunks_.begin() + parts_[s].first;
    return static_cast<std::size_t>(
        std::count_if(first, first + options_.chunks, [](const Chunk& c) { return c.retired; }));
  }

 private:
  [[nodiscard]] float highest() const {
    float highest = 0.0F;
    for (const Chunk& chunk : chunks_) {
      for (const auto& [row, weight] : chunk.items) {
        highest = std::max(highest, weight);
      }
    }
    return highest;
  }
  void ingest_chunk(Part& part, std::uint32_t c) {
    Chunk& chunk = chunks_[c];
    const bool had_items = !chunk.items.empty();
    for (; chunk.ingested < chunk.rows.size(); ++chunk.ingested) {
      float weight = chunk.rows[chunk.ingested];
      if (weight == storage::kNotAStep) {
        continue;
      }
      if (weight == storage::kInitialPriority) {
        weight = highest() > 0.0F ? highest() : 1.0F;
      }
      chunk.items.emplace(static_cast<std::uint32_t>(chunk.ingested), weight);
      ++part.ingested;
    }
    if (!had_items && !chunk.items.empty()) {
      part.order.push_back(c);
      chunk.turn = chunk.rung_at;  // The turn of the ring that announced the chunk's first item.
    }
    chunk.rung = false;
    chunk.closed = chunk.closing;
    if (chunk.closed && !chunk.items.empty()) {
      part.remover.filled(c, chunk.items.size());
    }
    reclaim_if_done(c);
  }
  void evict(Part& part) {
    while (resident() > options_.capacity && may_evict(part)) {
      const std::uint32_t c = part.remover.victim(
          part.order, [this](std::uint32_t chunk) { return average_weight(chunk); });
      chunks_[c].items.erase(chunks_[c].items.begin());
      ++part.evicted;
      if (chunks_[c].items.empty()) {
        part.order.remove(c);
        if (chunks_[c].closed) {
          part.remover.emptied(c);
        }
        reclaim_if_done(c);
      }
    }
  }
  /// Whether a shard may evict. With `Fifo`, its oldest chunk must not be much younger than the
  /// oldest of any shard; with another remover, it must hold more than its share of the capacity.
  [[nodiscard]] bool may_evict(const Part& part) const {
    if (rule_ != RemoverModel::Rule::Fifo) {
      return resident(static_cast<std::size_t>(&part - parts_.data())) >
             options_.capacity / options_.shards;
    }
    return !part.order.empty() && std::ranges::all_of(parts_, [&](const Part& other) {
      return other.order.empty() || chunks_[part.order.front()].turn <=
                                        chunks_[other.order.front()].turn + options_.shards;
    });
  }
  [[nodiscard]] double average_weight(std::uint32_t c) const {
    double sum = 0.0;
    for (const auto& [row, weight] : chunks_[c].items) {
      sum += static_cast<double>(weight);
    }
    return sum / static_cast<double>(chunks_[c].items.size());
  }
  void reclaim_if_done(std::uint32_t c) {
    Chunk& chunk = chunks_[c];
    if (!chunk.closed || !chunk.items.empty()) {
      return;
    }
    const std::uint32_t generation = chunk.generation + 1;
    const std::size_t pins = chunk.pins;
    chunk = Chunk{};
    chunk.generation = generation;
    chunk.pins = pins;
    chunk.retired = true;
    if (pins == 0) {
      free(c);
    }
  }
  void free(std::uint32_t c) {
    chunks_[c].retired = false;
    parts_[shard_of(c)].free.push_back(c);
  }

  const WorldOptions options_;
  const RemoverModel::Rule rule_;
  std::uint64_t next_turn_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<Part> parts_;
};

}  // namespace reprise::shard
