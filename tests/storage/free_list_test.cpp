#include "storage/free_list.hpp"

#include "hooked_sync.hpp"
#include "testing/test.hpp"

namespace reprise::storage {
namespace {

template <class Sync>
class Stack {
 public:
  explicit Stack(std::size_t chunks) : links_(chunks) {}
  void push(std::uint32_t chunk) { list_.push(chunk, links()); }
  std::uint32_t pop() { return list_.pop(links()); }

 private:
  auto links() {
    return [this](std::uint32_t chunk) -> auto& {
      return links_[chunk];
    };
  }
  std::vector<typename FreeList<Sync>::Link> links_;
  FreeList<Sync> list_;
};

TEST(FreeList, APushThatIsOvertakenByAPushLosesNeither) {
  Stack<HookedSync> stack(3);
  stack.push(0);
  HookedSync::before_next(HookedSync::Access::CompareExchange, [&] { stack.push(1); });
  stack.push(2);
  for (const std::uint32_t chunk : {2U, 1U, 0U, kNil}) {
    EXPECT_EQ(stack.pop(), chunk);
  }
}

TEST(FreeList, APopThatMeetsTheSameHeadOverAnotherLinkTriesAgain) {
  Stack<HookedSync> stack(3);
  stack.push(0);
  stack.push(1);
  stack.push(2);
  // `pop` has read 2 as the head and 1 as its successor. Before its exchange, another thread takes
  // both and pushes 2 back.
  HookedSync::before_next(HookedSync::Access::CompareExchange, [&] {
    ASSERT_EQ(stack.pop(), 2U);
    ASSERT_EQ(stack.pop(), 1U);
    stack.push(2);
  });
  EXPECT_EQ(stack.pop(), 2U);
  EXPECT_EQ(stack.pop(), 0U);
  EXPECT_EQ(stack.pop(), kNil);
}

TEST(FreeList, EachChunkHasOneOwnerAtATimeAndBringsWhatItsOwnerWrote) {
  constexpr std::size_t kChunks = 5;
  constexpr std::size_t kThreads = 4;
  constexpr std::uint64_t kUses = 20000;
  struct Content {
    std::uint64_t uses = 0;
    std::uint64_t copy = 0;
  };
  Stack<base::StdSync> stack(kChunks);
  // The contents are plain memory, so that only the list orders the accesses.
  std::array<Content, kChunks> contents;
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    stack.push(chunk);
  }
  std::vector<std::jthread> threads;
  test::start(threads, kThreads, [&] {
    for (std::uint64_t done = 0; done < kUses;) {
      const std::uint32_t chunk = stack.pop();
      ASSERT_NE(chunk, kNil) << "more chunks than threads";
      Content& content = contents[chunk];
      ASSERT_EQ(content.uses, content.copy);
      ++content.uses;
      ++content.copy;
      ++done;
      stack.push(chunk);
    }
  });
  threads.clear();
  std::uint64_t uses = 0;
  for (std::size_t i = 0; i < kChunks; ++i) {
    const std::uint32_t chunk = stack.pop();
    ASSERT_NE(chunk, kNil);
    uses += contents[chunk].uses;
  }
  EXPECT_EQ(stack.pop(), kNil);
  EXPECT_EQ(uses, kThreads * kUses);
}

}  // namespace
}  // namespace reprise::storage
