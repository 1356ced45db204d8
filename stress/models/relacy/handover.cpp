#include "chunks.hpp"
#include "explore.hpp"

#include <cstdint>

// A writer that leaves hands its open chunk over, and the next writer fills and closes it. No row
// may be lost, and the chunk has to close.

namespace reprise::model {
namespace {

constexpr std::uint32_t kRows = 2;

struct World {
  Chunks<1, kRows> chunks;
  DoorbellList list;
  Backlog backlog;
  FreeList open;
  bool taken_over = false;
  // The shard's lock guards the members below. In this model only the ingester uses them, so it
  // needs no lock.
  std::uint32_t seen = 0;
  bool closed = false;

  void write(std::uint32_t row) {
    chunks[0].rows[row].set(static_cast<int>(row) + 1);
    storage::publish(chunks[0].bell, row + 1);
  }

  /// Models WriterCore::~WriterCore, which announces the end of the episode and then hands the
  /// chunk over.
  void leave() {
    write(0);
    if (!broken(Rule::RingBeforeHandOver)) {
      list.ring(0, kRung, chunks.bells());
    }
    chunks[0].cursor.set(1);
    open.push(0, chunks.links());
    if (broken(Rule::RingBeforeHandOver)) {
      list.ring(0, kRung, chunks.bells());
    }
  }

  void take_over() {
    if (open.pop(chunks.links()) == kNil) {
      return;
    }
    taken_over = true;
    expect(chunks[0].cursor.get() == 1, "the cursor comes with the chunk");
    expect(chunks[0].rows[0].get() == 1, "the rows come with the chunk");
    write(1);
    list.ring(0, kRung | kClosed, chunks.bells());
  }

  void ingest() {
    backlog.take(list, chunks.bells());
    if (backlog.empty()) {
      return;
    }
    const storage::News news = backlog.answer_oldest(chunks.bells());
    expect(!closed, "no bell after the closing one");
    for (; seen < news.published; ++seen) {
      expect(chunks[0].rows[seen].get() == static_cast<int>(seen) + 1, "a row is whole");
    }
    closed = news.closed;
  }

  void after() {
    ingest();
    expect(seen == (taken_over ? kRows : 1U), "every row is seen once all is quiet");
    expect(closed == taken_over, "closed by the writer that filled it");
  }
};

struct TwoThreads : Test<TwoThreads, 2>, World {
  void thread(unsigned index) {
    if (index == 0) {
      leave();
    } else {
      ingest();
      take_over();
      ingest();
    }
  }
  void after() { World::after(); }
};

struct ThreeThreads : Test<ThreeThreads, 3>, World {
  void thread(unsigned index) {
    if (index == 0) {
      leave();
    } else if (index == 1) {
      ingest();
      ingest();
    } else {
      take_over();
    }
  }
  void after() { World::after(); }
};

}  // namespace

void add_handover(Scenarios& scenarios) {
  scenarios.push_back(small<TwoThreads>("lifetime", "an open chunk changes hands, two threads"));
  scenarios.push_back(
      small<ThreeThreads>("lifetime", "an open chunk changes hands, three threads"));
}

}  // namespace reprise::model
