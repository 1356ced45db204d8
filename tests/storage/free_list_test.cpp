#include "storage/free_list.hpp"

#include "testing/test.hpp"

namespace reprise::storage {
namespace {

class Stack {
  auto links() {
    return [this](std::uint32_t chunk) -> auto& {
      return links_[chunk];
    };
  }

 public:
  explicit Stack(std::size_t chunks) : links_(chunks) {}
  void push(std::uint32_t chunk) { list_.push(chunk, links()); }
  std::uint32_t pop() { return list_.pop(links()); }

 private:
  std::vector<FreeList<base::StdSync>::Link> links_;
  FreeList<base::StdSync> list_;
};

TEST(FreeList, EachChunkHasOneOwnerAtATimeAndBringsWhatItsOwnerWrote) {
  constexpr std::size_t kChunks = 5;
  constexpr std::size_t kThreads = 4;
  constexpr std::uint64_t kTurns = 20000;
  struct Content {
    std::uint64_t turns = 0;
    std::uint64_t copy = 0;
  };
  Stack stack(kChunks);
  // Plain memory, so that only the list orders the accesses.
  std::array<Content, kChunks> contents;
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    stack.push(chunk);
  }
  std::vector<std::jthread> threads;
  test::start(threads, kThreads, [&] {
    for (std::uint64_t done = 0; done < kTurns;) {
      const std::uint32_t chunk = stack.pop();
      ASSERT_NE(chunk, kNil) << "more chunks than threads";
      Content& content = contents[chunk];
      ASSERT_EQ(content.turns, content.copy);
      ++content.turns;
      ++content.copy;
      ++done;
      stack.push(chunk);
    }
  });
  threads.clear();
  std::uint64_t turns = 0;
  for (std::size_t i = 0; i < kChunks; ++i) {
    const std::uint32_t chunk = stack.pop();
    ASSERT_NE(chunk, kNil);
    turns += contents[chunk].turns;
  }
  EXPECT_EQ(stack.pop(), kNil);
  EXPECT_EQ(turns, kThreads * kTurns);
}

}  // namespace
}  // namespace reprise::storage
