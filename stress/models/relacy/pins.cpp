#include "chunks.hpp"
#include "explore.hpp"

#include <cstdint>

// Samplers pin the chunk under the lock and read it without the lock. The chunk is retired under
// the lock. The thread that retires or unpins it last frees the chunk; then a writer fills it
// again.

namespace reprise::model {
namespace {

/// One chunk with one row, which was written in the chunk's first life.
struct World {
  Chunks<1, 1> chunks;
  FreeList list;
  rl::mutex mutex;
  Plain<std::uint32_t> generation{0};                     ///< Guarded by the mutex.
  RelacySync::Atomic<std::uint32_t> separate_pins{0};     ///< For RetiredAndPinsInOneWord.
  RelacySync::Atomic<std::uint32_t> separate_retired{0};  ///< For RetiredAndPinsInOneWord.
  int freed = 0;

  void prepare() {
    chunks[0].rows[0].set(1);
    chunks[0].cursor.set(1);
    chunks[0].bell.published.store(1, kRelaxed);
  }

  void pin() {
    if (broken(Rule::RetiredAndPinsInOneWord)) {
      separate_pins.fetch_add(1, kRelaxed);
    } else {
      chunks[0].pins.pin();
    }
  }

  /// Models Shard::unpin.
  void unpin() {
    if (broken(Rule::RetiredAndPinsInOneWord)) {
      if (separate_pins.fetch_sub(1, base::Order::SeqCst) == 1 &&
          separate_retired.load(base::Order::SeqCst) != 0) {
        free_chunk();
      }
      return;
    }
    // The standard allows try_lock to fail without a reason.
    const bool locked = rl::rand(2) == 0 && mutex.try_lock(info(Where::current()));
    if (locked || broken(Rule::PlainUnpinUnderTheLock)) {
      unpin_locked();
    } else if (chunks[0].pins.unpin()) {
      free_chunk();
    }
    if (locked) {
      mutex.unlock(info(Where::current()));
    }
  }

  void unpin_locked() {
    // The broken rule decreases only the plain count, which nobody reads once the chunk is retired.
    const bool forgotten = broken(Rule::RetiredUnpinsByTheWord) && chunks[0].pins.retired();
    if (!forgotten && chunks[0].pins.unpin_locked()) {
      free_chunk();
    }
  }

  void read() { expect(chunks[0].rows[0].get() == 1, "a pinned row stays as it is"); }

  void read_and_unpin() {
    if (broken(Rule::ReadBeforeUnpin)) {
      unpin();
      read();
    } else {
      read();
      unpin();
    }
  }

  /// Models SamplerCore::draw and gather. Returns false if the chunk was retired before.
  bool draw() {
    bool live = false;
    {
      const Lock lock(mutex);
      live = generation.get() == 0;
      if (live && !broken(Rule::PinnedUnderTheLock)) {
        pin();
      }
    }
    if (live && broken(Rule::PinnedUnderTheLock)) {
      pin();
    }
    if (live) {
      read_and_unpin();
    }
    return live;
  }

  /// Models LockedShard::retire. The caller holds the lock.
  void retire() {
    generation.set(1);
    if (!broken(Rule::PublishedResetBeforePush)) {
      chunks[0].bell.published.store(0, kRelaxed);
    }
    chunks[0].cursor.set(0);
    if (broken(Rule::RetiredAndPinsInOneWord)) {
      separate_retired.store(1, base::Order::SeqCst);
      if (separate_pins.load(base::Order::SeqCst) == 0) {
        free_chunk();
      }
    } else if (chunks[0].pins.retire() || broken(Rule::RetiredKnowsOfPins)) {
      free_chunk();
    }
    if (broken(Rule::PublishedResetBeforePush)) {
      chunks[0].bell.published.store(0, kRelaxed);
    }
  }

  void free_chunk() {
    ++freed;
    expect(freed == 1, "a chunk is freed once");
    if (!broken(Rule::PinsResetBeforePush)) {
      chunks[0].pins.reset();
      list.push(0, chunks.links());
    } else {
      list.push(0, chunks.links());
      chunks[0].pins.reset();
    }
  }

  /// Models OpenChunk::take_with_tail and the write of the first row.
  bool reuse() {
    const std::uint32_t chunk = list.pop(chunks.links());
    if (chunk == kNil) {
      return false;
    }
    expect(chunks[chunk].cursor.get() == 0, "a recycled chunk is empty");
    expect(chunks[chunk].bell.published.load(kRelaxed) == 0,
           "no row of a recycled chunk is published");
    expect(!chunks[chunk].pins.retired(), "a recycled chunk is not retired");
    chunks[chunk].rows[0].set(2);
    // The pin comes last. Its memory order would hide that the operations above lack their own.
    chunks[chunk].pins.pin();
    expect(!chunks[chunk].pins.unpin(), "a pin given back frees nothing");
    expect(chunks[chunk].pins.retire(), "the first life's pins are forgotten");
    return true;
  }

  /// Models a writer that tries once more if the chunk is not free yet.
  void try_reuse_twice() {
    if (!reuse()) {
      reuse();
    }
  }

  void after() {
    expect(freed == 1, "the chunk is freed");
    reuse();
  }
};

struct UnpinnedByTwo : Test<UnpinnedByTwo, 3>, World {
  void prepare() {
    World::prepare();
    pin();
    pin();
  }
  void thread(unsigned index) {
    if (index < 2) {
      read_and_unpin();
    } else {
      const Lock lock(mutex);
      retire();
    }
  }
  void after() { World::after(); }
};

struct ReusedByTheRetirer : Test<ReusedByTheRetirer, 2>, World {
  void prepare() { World::prepare(); }
  void thread(unsigned index) {
    if (index == 0) {
      draw();
    } else {
      {
        const Lock lock(mutex);
        retire();
      }
      reuse();
    }
  }
  void after() { World::after(); }
};

struct ReusedByAWriter : Test<ReusedByAWriter, 3>, World {
  void prepare() { World::prepare(); }
  void thread(unsigned index) {
    if (index == 0) {
      draw();
    } else if (index == 1) {
      const Lock lock(mutex);
      retire();
    } else {
      try_reuse_twice();
    }
  }
  void after() { World::after(); }
};

struct TwoSamplersAndAWriter : Test<TwoSamplersAndAWriter, 4>, World {
  void prepare() { World::prepare(); }
  void thread(unsigned index) {
    if (index < 2) {
      draw();
      draw();
    } else if (index == 2) {
      const Lock lock(mutex);
      retire();
    } else {
      try_reuse_twice();
    }
  }
  void after() { World::after(); }
};

}  // namespace

void add_pins(Scenarios& scenarios) {
  scenarios.push_back(small<UnpinnedByTwo>("pins", "two unpin while the chunk is retired"));
  scenarios.push_back(small<ReusedByTheRetirer>("pins", "drawn from, retired and reused"));
  scenarios.push_back(large<ReusedByAWriter>("pins", "sampler, retirer and next writer"));
  scenarios.push_back(
      large<TwoSamplersAndAWriter>("pins", "two samplers, retirer and next writer"));
}

}  // namespace reprise::model
