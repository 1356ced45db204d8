#include "chunks.hpp"
#include "explore.hpp"

#include <array>
#include <cstdint>

// Writers publish rows and ring a bell to announce them; ingesters take the list of chunks that
// rang, answer the bells and read the rows. Each row has to be seen once and whole, and each chunk
// has to close once, after its last row.

namespace reprise::model {
namespace {

/// The chunks of the writers, each of `Rows` rows, and the shard that ingests them.
template <unsigned ChunkCount, unsigned Rows>
struct World {
  Chunks<ChunkCount, Rows> chunks;
  DoorbellList list;
  Backlog backlog;
  RelacySync::Atomic<std::uint32_t> head{kNil};  ///< Used while RungBeforePush is broken.
  RelacySync::Atomic<std::uint32_t> committed{0};
  std::array<std::uint32_t, ChunkCount> seen{};
  std::array<bool, ChunkCount> closed{};
  std::uint32_t all_seen = 0;

  /// Models WriterCore::commit. `count`: also counts the step, as WriterSlots does. Only one writer
  /// may count, because a writer loads and stores its count.
  bool commit(std::uint32_t chunk, std::uint32_t row, bool count = false) {
    const std::uint32_t value = row + 1 == Rows ? kRung | kClosed : kRung;
    const auto count_step = [&] {
      if (count) {
        committed.store(committed.load(kRelaxed) + 1, kRelaxed);
      }
    };
    const auto write = [&] { chunks[chunk].rows[row].set(value_of(chunk, row)); };
    if (!broken(Rule::CountedBeforePublish)) {
      count_step();
    }
    if (!broken(Rule::RowBeforePublish)) {
      write();
    }
    bool pushed = false;
    if (broken(Rule::PublishBeforeRing)) {
      pushed = list.ring(chunk, value, chunks.bells());
    }
    storage::publish(chunks[chunk].bell, row + 1);
    if (broken(Rule::RowBeforePublish)) {
      write();
    }
    if (broken(Rule::RungBeforePush)) {
      push_then_ring(chunk, value);
    } else if (!broken(Rule::PublishBeforeRing)) {
      pushed = list.ring(chunk, value, chunks.bells());
    }
    if (broken(Rule::CountedBeforePublish)) {
      count_step();
    }
    if (broken(Rule::NothingAfterTheClosingRing) && (value & kClosed) != 0) {
      chunks[chunk].rows[row].set(value_of(chunk, row));
    }
    return pushed;
  }

  /// Models LockedShard::ingest, which answers at most `bound` bells. If there are several
  /// ingesters, the caller holds the lock. `count`: compares the rows seen with the count of
  /// commits.
  void ingest(std::uint32_t bound, bool count = false) {
    if (broken(Rule::LinkReadBeforeTheAnswer)) {
      for (std::uint32_t chunk = list.take_all(); chunk != kNil;) {
        const storage::Answer news = storage::answer(chunks[chunk].bell);
        read_rows({chunk, news.published, news.closed}, count);
        chunk = chunks[chunk].bell.next.get();
      }
      return;
    }
    if (broken(Rule::BellClearedBeforePublishedIsRead)) {
      for (std::uint32_t chunk = list.take_all(); chunk != kNil;) {
        Bell& bell = chunks[chunk].bell;
        const std::uint32_t next = bell.next.get();
        const std::uint32_t published = bell.published.load(base::Order::Acquire);
        const std::uint32_t word = bell.word.exchange(0, base::Order::AcqRel);
        read_rows({chunk, published, (word & kClosed) != 0}, count);
        chunk = next;
      }
      return;
    }
    if (broken(Rule::RungBeforePush)) {
      for (std::uint32_t chunk = head.exchange(kNil, base::Order::AcqRel); chunk != kNil;) {
        const std::uint32_t next = chunks[chunk].bell.next.get();
        const storage::Answer news = storage::answer(chunks[chunk].bell);
        read_rows({chunk, news.published, news.closed}, count);
        chunk = next;
      }
      return;
    }
    backlog.take(list, chunks.bells());
    for (; bound != 0 && !backlog.empty(); --bound) {
      read_rows(backlog.answer_oldest(chunks.bells()), count);
    }
  }

  void after() {
    ingest(ChunkCount);
    for (std::uint32_t chunk = 0; chunk < ChunkCount; ++chunk) {
      expect(seen[chunk] == Rows, "every row is seen once all is quiet");
      expect(closed[chunk], "a full chunk is closed once all is quiet");
      expect(chunks[chunk].bell.word.load(kRelaxed) == 0, "a closing ring is the last");
    }
  }

 private:
  static int value_of(std::uint32_t chunk, std::uint32_t row) {
    return static_cast<int>(10 * chunk + row + 1);
  }

  void push_then_ring(std::uint32_t chunk, std::uint32_t value) {
    Bell& bell = chunks[chunk].bell;
    if (bell.word.load(base::Order::Acquire) == 0) {
      std::uint32_t next = head.load(kRelaxed);
      do {
        bell.next.set(next);
      } while (!head.compare_exchange(next, chunk, base::Order::AcqRel, kRelaxed));
    }
    bell.word.exchange(value, base::Order::AcqRel);
  }

  /// Reads the rows that the answer to a bell announces.
  void read_rows(const storage::News& news, bool count) {
    expect(!closed[news.chunk], "no bell after the closing one");
    expect(news.published >= seen[news.chunk], "published never runs backwards");
    for (; seen[news.chunk] < news.published; ++seen[news.chunk], ++all_seen) {
      const std::uint32_t row = seen[news.chunk];
      expect(chunks[news.chunk].rows[row].get() == value_of(news.chunk, row), "a row is whole");
    }
    closed[news.chunk] = news.closed;
    expect(!news.closed || seen[news.chunk] == Rows, "closed with its last row");
    // Models BufferCore::stats: every ingested step has to be counted.
    expect(!count || committed.load(kRelaxed) >= all_seen, "committed before ingested");
  }
};

struct Commits : Test<Commits, 2>, World<1, 3> {
  void thread(unsigned index) {
    if (index == 0) {
      for (std::uint32_t row = 0; row < 3; ++row) {
        commit(0, row, /*count=*/true);
      }
    } else {
      ingest(1, /*count=*/true);
      ingest(1, /*count=*/true);
    }
  }
  void after() { World::after(); }
};

struct ChunkAfterChunk : Test<ChunkAfterChunk, 2>, World<2, 1> {
  void thread(unsigned index) {
    if (index == 0) {
      commit(0, 0);
      commit(1, 0);
    } else {
      ingest(1);
      ingest(1);
      ingest(1);
    }
  }
  void after() { World::after(); }
};

struct TwoWriters : Test<TwoWriters, 3>, World<2, 1> {
  void thread(unsigned index) {
    if (index < 2) {
      commit(index, 0);
    } else {
      ingest(2);
    }
  }
  void after() { World::after(); }
};

struct WritersAndABacklog : Test<WritersAndABacklog, 3>, World<4, 2> {
  void thread(unsigned index) {
    if (index < 2) {
      for (std::uint32_t row = 0; row < 2; ++row) {
        commit(2 * index, row);
        commit(2 * index + 1, row);
      }
    } else {
      for (int i = 0; i < 6; ++i) {
        ingest(1 + rl::rand(2));
      }
    }
  }
  void after() { World::after(); }
};

struct TwoIngesters : Test<TwoIngesters, 3>, World<2, 3> {
  rl::mutex mutex;

  void thread(unsigned index) {
    if (index == 0) {
      for (std::uint32_t row = 0; row < 3; ++row) {
        commit(0, row);
        commit(1, row);
      }
    } else {
      for (int i = 0; i < 3; ++i) {
        const Lock lock(mutex);
        ingest(1);
      }
    }
  }
  void after() { World::after(); }
};

}  // namespace

void add_doorbell(Scenarios& scenarios) {
  scenarios.push_back(small<Commits>("doorbell", "one writer, three commits, one ingester"));
  scenarios.push_back(small<ChunkAfterChunk>("doorbell", "one writer, chunk after chunk"));
  scenarios.push_back(small<TwoWriters>("doorbell", "two writers, one ingester"));
  scenarios.push_back(large<WritersAndABacklog>("doorbell", "two writers, four chunks, a backlog"));
  scenarios.push_back(large<TwoIngesters>("doorbell", "one writer, two ingesters"));
}

}  // namespace reprise::model
