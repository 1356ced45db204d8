#include "chunks.hpp"
#include "explore.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

// O1: draws in order. Items are numbered when they are decided (their windows are complete). Shards
// are ingested one after the other, and meanwhile a writer may move from an ingested shard to
// another one. A draw must not get an item while an older item of the same writer is missing.

namespace reprise::model {
namespace {

using base::Order;

/// Two shards, each with a chunk of each writer, and the item counter of BufferCore with the same
/// memory orders. A single ingester takes no lock, so that there are fewer schedules.
template <unsigned Writers, unsigned Rows, unsigned Ingesters>
struct World {
  /// A set of items: a bit for each item, by writer.
  using Items = std::array<std::uint32_t, Writers>;

  struct Shard {
    Chunks<Writers, Rows> chunks;
    /// The index of each row's item among its writer's items.
    std::array<std::array<std::uint32_t, Rows>, Writers> item_index{};
    DoorbellList list;
    Backlog backlog;
    rl::mutex mutex;
    std::array<std::uint32_t, Writers> ingested{};  ///< Rows ingested. Guarded by the mutex.
  };

  std::array<Shard, 2> shards;
  RelacySync::Atomic<std::uint64_t> next_item_number{0};
  std::array<std::uint32_t, Writers> committed{};
  /// If there is one writer, it sets element n after it rang for its n-th item.
  std::array<Plain<int>, 2 * Rows> rung;

  /// Models WriterCore::decide_step and OpenChunk::announce.
  void commit(std::uint32_t writer, std::uint32_t shard, std::uint32_t row) {
    Shard& s = shards[shard];
    s.item_index[writer][row] = committed[writer];
    const std::uint64_t number = next_item_number.fetch_add(1, Order::Release);
    s.chunks[writer].rows[row].set(static_cast<int>(number));
    storage::publish(s.chunks[writer].bell, row + 1);
    s.list.ring(writer, kRung, s.chunks.bells());
    if (Writers == 1) {
      rung[committed[writer]].set(1);
    }
    ++committed[writer];
  }

  /// Models ItemNumbers::taken. The doorbell list cannot show that this load lacks its memory
  /// order, because a read-modify-write of the list sees the newest value without any. `rung` can
  /// show it, because it is plain memory: a single writer has rung for all its items but the last
  /// numbered.
  std::uint64_t item_numbers_taken() {
    const std::uint64_t taken = next_item_number.load(Order::Acquire);
    for (std::uint64_t n = 0; Writers == 1 && n + 1 < taken; ++n) {
      expect(rung[n].get() == 1, "an item is rung for before the next is numbered");
    }
    return taken;
  }

  /// Models LockedShard::ingest, which answers at most `bound` chunks.
  void ingest(Shard& shard, std::uint32_t bound) {
    std::optional<Lock> lock;
    if (Ingesters > 1) {
      lock.emplace(shard.mutex);
    }
    shard.backlog.take(shard.list, shard.chunks.bells());
    for (; bound != 0 && !shard.backlog.empty(); --bound) {
      const storage::News news = shard.backlog.answer_oldest(shard.chunks.bells());
      shard.ingested[news.chunk] = news.published;
    }
  }
  void drain() {
    ingest(shards[0], Writers);
    ingest(shards[1], Writers);
  }

  /// Ingests all shards, and returns the horizon: every item of a lower number has been ingested.
  std::uint64_t drain_to_horizon() {
    if (broken(Rule::HorizonBeforeDrain)) {
      drain();
      return item_numbers_taken();
    }
    const std::uint64_t horizon = item_numbers_taken();
    drain();
    return horizon;
  }

  /// Models SnapshotDraw::draw, which reads the items under the locks of all shards and may draw
  /// those below the horizon.
  void draw() {
    const std::uint64_t horizon = drain_to_horizon();
    std::array<std::optional<Lock>, 2> locks;
    if (Ingesters > 1) {
      locks[0].emplace(shards[0].mutex);
      locks[1].emplace(shards[1].mutex);
    }
    Items ingested{};
    Items drawable{};
    for (Shard& shard : shards) {
      for (std::uint32_t w = 0; w < Writers; ++w) {
        for (std::uint32_t row = 0; row < shard.ingested[w]; ++row) {
          const auto number = static_cast<std::uint64_t>(shard.chunks[w].rows[row].get());
          const std::uint32_t item_bit = 1U << shard.item_index[w][row];
          ingested[w] |= item_bit;
          drawable[w] |= number < horizon ? item_bit : 0;
        }
      }
    }
    for (std::uint32_t w = 0; w < Writers; ++w) {
      for (std::uint32_t n = 0; n < 2 * Rows; ++n) {
        const bool is_drawable = (drawable[w] >> n & 1) != 0;
        const std::uint32_t older = (1U << n) - 1;
        expect(!is_drawable || (ingested[w] & older) == older,
               "no older item of the same writer is missing");
      }
    }
  }
};

struct OneWriter : Test<OneWriter, 2>, World<1, 1, 1> {
  void thread(unsigned index) {
    if (index == 0) {
      commit(0, 0, 0);
      commit(0, 1, 0);
    } else {
      draw();
    }
  }
};

/// A third thread ingests some of the chunks that the draw would ingest, or leaves them in the
/// backlog.
struct WithAHelper : Test<WithAHelper, 3>, World<1, 2, 2> {
  void thread(unsigned index) {
    if (index == 0) {
      commit(0, 0, 0);
      commit(0, 1, 0);
      commit(0, 0, 1);
      commit(0, 1, 1);
    } else if (index == 1) {
      ingest(shards[1], 1);
      ingest(shards[0], 1);
    } else {
      draw();
    }
  }
};

struct TwoWriters : Test<TwoWriters, 4>, World<2, 2, 2> {
  void thread(unsigned index) {
    if (index < 2) {
      commit(index, index, 0);
      commit(index, 1 - index, 0);
      commit(index, index, 1);
    } else if (index == 2) {
      ingest(shards[1], 1);
    } else {
      draw();
      draw();
    }
  }
};

}  // namespace

void add_order(Scenarios& scenarios) {
  scenarios.push_back(small<OneWriter>("order", "one writer, two shards, a draw"));
  scenarios.push_back(large<WithAHelper>("order", "a writer to and fro, a helper, a draw"));
  scenarios.push_back(large<TwoWriters>("order", "two writers, a helper, two draws"));
}

}  // namespace reprise::model
