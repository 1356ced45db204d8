#include "chunks.hpp"
#include "explore.hpp"
#include "sleeper.hpp"

#include <array>
#include <cstdint>

// Samplers sleep until chunks ring. No sampler may go on sleeping while the items that it waits for
// are published.

namespace reprise::model {
namespace {

/// One shard. The items of chunks that rang are counted under its lock.
template <unsigned ChunkCount>
struct World {
  Chunks<ChunkCount, 2> chunks;
  DoorbellList list;
  Backlog backlog;
  rl::mutex mutex;
  Plain<std::uint32_t> items{0};  ///< Guarded by the mutex.
  std::array<std::uint32_t, ChunkCount> seen{};
  Sleeper items_event;

  /// Models OpenChunk::announce.
  void commit(std::uint32_t chunk, std::uint32_t row) {
    chunks[chunk].rows[row].set(1);
    storage::publish(chunks[chunk].bell, row + 1);
    if (broken(Rule::ProgressBeforeWake)) {
      items_event.wake_registered();
      list.ring(chunk, kRung, chunks.bells());
    } else if (list.ring(chunk, kRung, chunks.bells())) {
      items_event.wake_registered();
    }
  }

  /// Models LockedShard::ingest under the lock; returns the number of items.
  std::uint32_t ingest(std::uint32_t bound) {
    const Lock lock(mutex);
    backlog.take(list, chunks.bells());
    for (; bound != 0 && !backlog.empty(); --bound) {
      const storage::News news = backlog.answer_oldest(chunks.bells());
      items.set(items.get() + news.published - seen[news.chunk]);
      seen[news.chunk] = news.published;
    }
    return items.get();
  }

  /// Models a sampler that needs `needed` items; its last look models ShardSet::drain.
  void sample(std::uint32_t needed) {
    const std::uint32_t bound = broken(Rule::DrainToTheEnd) ? 1 : ChunkCount;
    items_event.wait_unless([&] { return ingest(bound) >= needed; });
  }

  void after() { items_event.expect_awake(); }
};

struct FirstItem : Test<FirstItem, 2>, World<1> {
  void thread(unsigned index) {
    if (index == 0) {
      commit(0, 0);
    } else {
      sample(1);
    }
  }
  void after() { World::after(); }
};

struct SecondItem : Test<SecondItem, 2>, World<1> {
  void thread(unsigned index) {
    if (index == 0) {
      commit(0, 0);
      commit(0, 1);
    } else {
      sample(2);
    }
  }
  void after() { World::after(); }
};

struct TwoChunks : Test<TwoChunks, 2>, World<2> {
  void thread(unsigned index) {
    if (index == 0) {
      commit(0, 0);
      commit(1, 0);
    } else {
      sample(2);
    }
  }
  void after() { World::after(); }
};

/// Between the helper's taking of the list and its answer to the bell the second commit does not
/// push the chunk, so no push wakes the sampler. The last look of the sampler before it sleeps then
/// has to wait for the helper's lock.
struct IngestedByAHelper : Test<IngestedByAHelper, 3>, World<1> {
  void thread(unsigned index) {
    if (index == 0) {
      commit(0, 0);
      commit(0, 1);
    } else if (index == 1) {
      ingest(1);
      ingest(1);
    } else {
      sample(2);
    }
  }
  void after() { World::after(); }
};

/// Two shards share one event. The sampler's last look takes every list under its lock; all items
/// are counted in one relaxed word, as in shard::Budget.
struct TwoShards : Test<TwoShards, 3> {
  std::array<World<1>, 2> shards;
  RelacySync::Atomic<std::uint32_t> resident{0};
  Sleeper items_event;

  void ingest(World<1>& shard) {
    const Lock lock(shard.mutex);
    shard.backlog.take(shard.list, shard.chunks.bells());
    if (!shard.backlog.empty()) {
      const storage::News news = shard.backlog.answer_oldest(shard.chunks.bells());
      resident.fetch_add(news.published, kRelaxed);
    }
  }
  void thread(unsigned index) {
    if (index < 2) {
      World<1>& shard = shards[index];
      shard.chunks[0].rows[0].set(1);
      storage::publish(shard.chunks[0].bell, 1);
      items_event.progress_then_wake([&] { shard.list.ring(0, kRung, shard.chunks.bells()); },
                                     [&] { items_event.wake_registered(); });
      if (index == 1) {
        ingest(shards[0]);
      }
    } else {
      items_event.wait_unless([&] {
        ingest(shards[0]);
        ingest(shards[1]);
        return resident.load(kRelaxed) == 2;
      });
    }
  }
  void after() { items_event.expect_awake(); }
};

/// Tests the orders B3 of docs/memory_ordering.md without those of the event: a sleeper registers
/// and then finds the list empty; a thread that pushes later has to see the registration.
struct OrderedByTheList : Test<OrderedByTheList, 2>, World<1> {
  RelacySync::Atomic<std::uint32_t> registered{0};
  bool missed = false;
  bool seen = false;

  void thread(unsigned index) {
    if (index == 0) {
      storage::publish(chunks[0].bell, 1);
      list.ring(0, kRung, chunks.bells());
      seen = registered.load(kRelaxed) != 0;
    } else {
      registered.store(1, kRelaxed);
      missed = list.take_all() == kNil;
    }
  }
  void after() { expect(seen || !missed, "the push or the registration is seen"); }
};

struct TwoWriters : Test<TwoWriters, 3>, World<2> {
  void thread(unsigned index) {
    if (index < 2) {
      commit(index, 0);
      commit(index, 1);
    } else {
      ingest(1);
      sample(4);
    }
  }
  void after() { World::after(); }
};

}  // namespace

void add_sleep(Scenarios& scenarios) {
  scenarios.push_back(small<FirstItem>("sleep", "a sampler sleeps, a writer pushes"));
  scenarios.push_back(small<SecondItem>("sleep", "a sampler needs two commits"));
  scenarios.push_back(small<TwoChunks>("sleep", "a sampler needs two chunks"));
  scenarios.push_back(
      small<OrderedByTheList>("sleep", "the list alone orders push and registration"));
  scenarios.push_back(large<TwoShards>("sleep", "two shards, one sampler"));
  scenarios.push_back(large<IngestedByAHelper>("sleep", "a helper ingests what was coalesced"));
  scenarios.push_back(large<TwoWriters>("sleep", "two writers, one sampler"));
}

}  // namespace reprise::model
