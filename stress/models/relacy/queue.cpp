#include "explore.hpp"
#include "sleeper.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

// The two gates of a queue, one for writers and one for samplers. Progress at each gate has to wake
// the sleepers at the other gate, no two batches may count on the same item, and writers may exceed
// the queue's size by at most what the other writers booked.

namespace reprise::model {
namespace {

/// A queue and one shard, whose items are counted under its lock.
template <std::size_t Size, std::size_t Block>
struct World {
  limiter::QueueGate<RelacySync> gate{Size, Block};
  rl::mutex mutex;
  Plain<std::size_t> items{0};  ///< Guarded by the mutex.
  Sleeper items_event;          ///< Samplers wait for this event.
  Sleeper room_event;           ///< Writers wait for this event.

  std::size_t count() {
    const Lock lock(mutex);
    return items.get();
  }
  void change(std::size_t by) {
    const Lock lock(mutex);
    items.set(items.get() + by);
  }

  /// Models BookedInserts::book.
  std::size_t book() {
    return gate.book_inserts([&] { return count(); });
  }
  /// Models BookedInserts::wait.
  void write() {
    room_event.wait_unless([&] { return book() != 0; });
  }

  /// Models SamplerCore::wait.
  bool admit(std::size_t n) {
    return gate.reserve(n, [&] { return count(); });
  }
  void sample(std::size_t n) {
    items_event.wait_unless([&] { return admit(n); });
  }
  /// Models SamplerCore::batch_drawn for items that were drawn for the last time.
  void draw(std::size_t n) {
    room_event.progress_then_wake(
        [&] {
          change(0 - n);
          gate.release(n);
        },
        [&] { room_event.wake_registered(); });
  }
  /// Models a sampler that cannot draw the batch it was admitted for.
  void give_up(std::size_t n) {
    items_event.progress_then_wake([&] { gate.release(n); },
                                   [&] { items_event.wake_registered(); });
  }
};

/// The queue is full, so the writer waits until the sampler draws.
struct WriterWaits : Test<WriterWaits, 2>, World<1, 1> {
  void prepare() {
    expect(book() == 1, "an empty queue has room");
    change(1);
    expect(admit(1), "an item waits");
  }
  void thread(unsigned index) {
    if (index == 0) {
      write();
    } else {
      draw(1);
    }
  }
  void after() { room_event.expect_awake(); }
};

/// The only item is reserved for a batch that cannot be drawn, so another sampler waits.
struct SamplerWaits : Test<SamplerWaits, 2>, World<1, 1> {
  void prepare() {
    change(1);
    expect(admit(1), "an item waits");
  }
  void thread(unsigned index) {
    if (index == 0) {
      give_up(1);
    } else {
      sample(1);
    }
  }
  void after() { items_event.expect_awake(); }
};

/// Three samplers want one item each of two, which are counted without a lock.
struct ItemsOnce : Test<ItemsOnce, 3> {
  limiter::QueueGate<RelacySync> gate{2, 1};
  RelacySync::Atomic<std::size_t> items{2};

  void thread(unsigned) {
    if (gate.reserve(1, [&] { return items.load(base::Order::Relaxed); })) {
      const std::size_t before = items.fetch_sub(1, base::Order::Relaxed);
      expect(before != 0, "no item is drawn twice");
      gate.release(1);
    }
  }
};

/// Writers fill a queue that nobody empties. Only the gate orders their commits.
template <unsigned Writers>
struct Overshoot : Test<Overshoot<Writers>, Writers> {
  static constexpr std::size_t kSize = 2;
  static constexpr std::size_t kBlock = 1;
  limiter::QueueGate<RelacySync> gate{kSize, kBlock};
  std::array<RelacySync::Atomic<std::size_t>, Writers> committed;

  std::size_t count_committed() {
    std::size_t sum = 0;
    for (auto& steps : committed) {
      sum += steps.load(base::Order::Relaxed);
    }
    return sum;
  }
  void thread(unsigned index) {
    for (std::size_t steps = 0; steps < 4;) {
      const std::size_t booked = gate.book_inserts([&] { return count_committed(); });
      if (booked == 0) {
        break;
      }
      steps += booked;
      committed[index].store(steps, base::Order::Relaxed);
    }
  }
  void after() {
    expect(count_committed() >= kSize, "a writer goes on while there is room");
    expect(count_committed() <= kSize + (Writers - 1) * kBlock,
           "at most a block too much for each other writer");
  }
};

}  // namespace

void add_queue(Scenarios& scenarios) {
  scenarios.push_back(small<WriterWaits>("queue", "a writer waits for a draw"));
  scenarios.push_back(small<SamplerWaits>("queue", "a sampler waits for a reservation"));
  scenarios.push_back(large<ItemsOnce>("queue", "three samplers, two items"));
  scenarios.push_back(large<Overshoot<2>>("queue", "two writers overshoot"));
  scenarios.push_back(large<Overshoot<3>>("queue", "three writers overshoot"));
}

}  // namespace reprise::model
