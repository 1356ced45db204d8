#include "chunks.hpp"
#include "explore.hpp"

#include <array>
#include <cstdint>

// The free list and fresh chunks. A chunk has to have one owner at a time, who sees what the
// previous owner left in it.

namespace reprise::model {
namespace {

/// FreeList without its tag, used while TagInTheFreeList is broken.
class UntaggedList {
 public:
  template <class Links>
  void push(std::uint32_t chunk, Links links) {
    std::uint32_t head = head_.load(kRelaxed);
    do {
      links(chunk).store(head, kRelaxed);
    } while (!head_.compare_exchange(head, chunk, base::Order::Release, kRelaxed));
  }
  template <class Links>
  std::uint32_t pop(Links links) {
    std::uint32_t head = head_.load(base::Order::Acquire);
    while (head != kNil) {
      const std::uint32_t below = links(head).load(kRelaxed);
      if (head_.compare_exchange(head, below, base::Order::Acquire, base::Order::Acquire)) {
        break;
      }
    }
    return head;
  }

 private:
  RelacySync::Atomic<std::uint32_t> head_{kNil};
};

template <unsigned Count>
struct Stack {
  Chunks<Count, 1> chunks;
  FreeList list;
  UntaggedList untagged;
  std::array<int, Count> owners{};

  void push(std::uint32_t chunk) {
    --owners[chunk];
    if (broken(Rule::TagInTheFreeList)) {
      untagged.push(chunk, chunks.links());
    } else {
      list.push(chunk, chunks.links());
    }
  }
  std::uint32_t pop() {
    const std::uint32_t chunk =
        broken(Rule::TagInTheFreeList) ? untagged.pop(chunks.links()) : list.pop(chunks.links());
    if (chunk != kNil) {
      ++owners[chunk];
      expect(owners[chunk] == 1, "a chunk has one owner");
    }
    return chunk;
  }

  /// Models OpenChunk::leave, which hands over a chunk's rows together with their count.
  void hand_over(std::uint32_t chunk, std::uint32_t cursor) {
    if (!broken(Rule::CursorBeforePush)) {
      chunks[chunk].cursor.set(cursor);
      push(chunk);
    } else {
      push(chunk);
      chunks[chunk].cursor.set(cursor);
    }
  }

  /// Puts all chunks on the list, chunk 0 on top, each with a cursor of 1.
  void fill() {
    owners.fill(1);
    for (std::uint32_t chunk = Count; chunk != 0; --chunk) {
      hand_over(chunk - 1, 1);
    }
  }
  /// Checks that all chunks are on the list at the end.
  void expect_all_on_list() {
    for (std::uint32_t i = 0; i < Count; ++i) {
      expect(pop() != kNil, "no chunk is lost");
    }
    expect(pop() == kNil, "no chunk is there twice");
  }
};

struct HandOver : Test<HandOver, 2>, Stack<2> {
  void thread(unsigned index) {
    if (index == 0) {
      chunks[0].rows[0].set(1);
      hand_over(0, 7);
      hand_over(1, 8);
    } else {
      const std::uint32_t chunk = pop();
      if (chunk != kNil) {
        expect(chunks[chunk].cursor.get() == 7 + chunk, "the cursor comes with the chunk");
        hand_over(chunk, 7 + chunk);
      }
    }
  }
  void prepare() { owners.fill(1); }
  void after() { expect_all_on_list(); }
};

/// One thread reads the top. Before its exchange, the other pops the two top chunks and pushes the
/// first one again.
struct TopComesBack : Test<TopComesBack, 2>, Stack<2> {
  void thread(unsigned index) {
    const std::uint32_t first = pop();
    if (index == 1 && first != kNil) {
      pop();
      hand_over(first, chunks[first].cursor.get() + 1);
    }
  }
  void prepare() { fill(); }
  void after() {
    while (pop() != kNil) {
    }
    expect(owners[0] == 1 && owners[1] == 1, "no chunk is lost");
  }
};

struct Churn : Test<Churn, 3>, Stack<3> {
  void thread(unsigned) {
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t first = pop();
      const std::uint32_t second = rl::rand(2) == 0 ? pop() : kNil;
      for (const std::uint32_t chunk : {first, second}) {
        if (chunk != kNil) {
          hand_over(chunk, chunks[chunk].cursor.get() + 1);
        }
      }
    }
  }
  void prepare() { fill(); }
  void after() { expect_all_on_list(); }
};

struct Fresh : Test<Fresh, 3>, Stack<2> {
  FreshChunks fresh;
  RelacySync::Atomic<std::uint32_t> taken{0};  ///< For FreshChunksByExchange.
  int taken_count = 0;

  std::uint32_t take() {
    if (broken(Rule::FreshChunksByExchange)) {
      const std::uint32_t next = taken.load(kRelaxed);
      if (next == 2) {
        return kNil;
      }
      taken.store(next + 1, kRelaxed);
      return next;
    }
    return fresh.take(2);
  }
  void thread(unsigned) {
    const std::uint32_t chunk = take();
    if (chunk != kNil) {
      chunks[chunk].rows[0].set(1);
      ++taken_count;
    }
  }
  void after() {
    expect(taken_count == 2 && take() == kNil, "each fresh chunk goes to one writer");
  }
};

}  // namespace

void add_lists(Scenarios& scenarios) {
  scenarios.push_back(small<HandOver>("lists", "a chunk handed over with its cursor"));
  scenarios.push_back(small<TopComesBack>("lists", "pop against pop, pop, push"));
  scenarios.push_back(large<Churn>("lists", "three threads pop and push"));
  scenarios.push_back(small<Fresh>("lists", "three writers, two fresh chunks"));
}

}  // namespace reprise::model
