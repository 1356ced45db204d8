#include "chunks.hpp"
#include "explore.hpp"

#include <cstdint>

// Two lives of a chunk: one writer fills and closes it, it is ingested, drawn from, retired and
// freed, and another writer fills it. No bell of the first life may ring for the second.

namespace reprise::model {
namespace {

constexpr std::uint32_t kRows = 2;

struct World {
  Chunks<1, kRows> chunks;
  DoorbellList list;
  Backlog backlog;
  FreeList free;
  RelacySync::Atomic<std::uint32_t> closed_flag{0};  ///< For ClosedIsNoFlagOfItsOwn.
  // The shard's lock guards the members below. In this model only the ingester uses them, so it
  // needs no lock.
  std::uint32_t generation = 0;
  std::uint32_t ingested = 0;
  bool reused = false;

  /// Returns the function by which a ring sets the chunk's turn (its place in the eviction order),
  /// given the turn that the chunk has. In this model a turn is the number of the chunk's life: the
  /// first ring of a life has to find no turn, and later rings that of the same life.
  static constexpr auto turn_of_life(std::uint32_t life) {
    return [life](std::uint64_t turn_before) {
      expect(turn_before == storage::kNoTurn || turn_before == life,
             "a turn ends with the chunk's life");
      return std::uint64_t{life};
    };
  }
  static int value_of(std::uint32_t life, std::uint32_t row) {
    return static_cast<int>(10 * life + row + 1);
  }

  void commit(std::uint32_t life, std::uint32_t row) {
    chunks[0].rows[row].set(value_of(life, row));
    storage::publish(chunks[0].bell, row + 1);
    const bool closing = row + 1 == kRows;
    if (broken(Rule::ClosedIsNoFlagOfItsOwn)) {
      closed_flag.store(closing ? 1 : 0, base::Order::SeqCst);
      list.ring(0, kRung, chunks.bells(), turn_of_life(life));
      return;
    }
    list.ring(0, closing ? kRung | kClosed : kRung, chunks.bells(), turn_of_life(life));
  }

  void free_chunk() {
    chunks[0].pins.reset();
    free.push(0, chunks.links());
  }

  void ingest() {
    backlog.take(list, chunks.bells());
    if (backlog.empty()) {
      return;
    }
    storage::News news = backlog.answer_oldest(chunks.bells());
    if (broken(Rule::ClosedTravelsInTheBell)) {
      news.closed = news.published == kRows;
    } else if (broken(Rule::ClosedIsNoFlagOfItsOwn)) {
      news.closed = closed_flag.load(base::Order::SeqCst) != 0;
    }
    expect(news.turn == generation, "the answer has the turn of its ring");
    expect(news.published >= ingested, "published never runs backwards");
    for (; ingested < news.published; ++ingested) {
      expect(chunks[0].rows[ingested].get() == value_of(generation, ingested), "a row is whole");
    }
    expect(!news.closed || generation == 0, "the second writer has not closed the chunk");
    expect(generation == 0 || reused, "no bell while nobody has the chunk");
    if (news.closed) {
      draw_and_retire();
    } else {
      chunks[0].pins.pin();
      expect(!chunks[0].pins.unpin(), "an open chunk's pins free nothing");
    }
  }

  /// A sampler may hold its pin beyond the retirement. It has to read the row before the chunk is
  /// reused.
  void draw_and_retire() {
    const bool pinned = rl::rand(2) == 0;
    if (pinned) {
      chunks[0].pins.pin();
    }
    ++generation;
    ingested = 0;
    chunks[0].bell.published.store(0, kRelaxed);
    if (!broken(Rule::TurnEndsWithTheChunk)) {
      chunks[0].bell.turn.set(storage::kNoTurn);
    }
    chunks[0].cursor.set(0);
    if (chunks[0].pins.retire()) {
      free_chunk();
    }
    if (pinned) {
      expect(chunks[0].rows[0].get() == value_of(0, 0), "a pinned row stays as it is");
      if (chunks[0].pins.unpin()) {
        free_chunk();
      }
    }
  }

  void write_first_life() {
    for (std::uint32_t row = 0; row < kRows; ++row) {
      commit(0, row);
    }
  }

  void write_next_life() {
    if (free.pop(chunks.links()) == kNil) {
      return;
    }
    expect(chunks[0].cursor.get() == 0, "a recycled chunk is empty");
    reused = true;
    commit(1, 0);
  }

  void after() {
    ingest();
    ingest();
    expect(generation == 1, "the first life has ended");
    expect(ingested == (reused ? 1U : 0U), "the second life has what its writer published");
  }
};

struct NextLife : Test<NextLife, 3>, World {
  void thread(unsigned index) {
    if (index == 0) {
      write_first_life();
    } else if (index == 1) {
      ingest();
      ingest();
      ingest();
    } else {
      write_next_life();
    }
  }
  void after() { World::after(); }
};

/// The ingester itself fills the chunk again, so that two threads are enough to show a fault.
struct NextLifeInTwoThreads : Test<NextLifeInTwoThreads, 2>, World {
  void thread(unsigned index) {
    if (index == 0) {
      write_first_life();
    } else {
      ingest();
      ingest();
      write_next_life();
      ingest();
    }
  }
  void after() { World::after(); }
};

}  // namespace

void add_lifetime(Scenarios& scenarios) {
  scenarios.push_back(small<NextLifeInTwoThreads>("lifetime", "a chunk's next life, two threads"));
  scenarios.push_back(large<NextLife>("lifetime", "a chunk's next life, three threads"));
}

}  // namespace reprise::model
