#include "shard/budget.hpp"

#include "testing/test.hpp"

namespace reprise::shard {
namespace {

TEST(Budget, WhatIsAboveTheCapacityIsNotToldToUsers) {
  Budget budget(5);
  budget.add(4);
  EXPECT_EQ(budget.visible_steps(), 4U);
  budget.add(8);
  EXPECT_EQ(budget.visible_steps(), 5U);
  EXPECT_EQ(budget.resident(), 12U);
}

TEST(Budget, ThreadsThatAddAndClaimLeaveExactlyTheCapacity) {
  constexpr std::size_t kCapacity = 100;
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kRounds = 20000;
  Budget budget(kCapacity);
  std::atomic<std::size_t> claimed{0};
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < kRounds; ++i) {
        budget.add(1 + i % 3);
        claimed.fetch_add(budget.claim_excess(1 + i % 4));
      }
    });
  }
  threads.clear();
  claimed.fetch_add(budget.claim_excess(kThreads * kRounds * 3));
  EXPECT_EQ(budget.resident(), kCapacity);
  std::size_t added = 0;
  for (std::size_t i = 0; i < kRounds; ++i) {
    added += 1 + i % 3;
  }
  EXPECT_EQ(claimed.load(), kThreads * added - kCapacity);
}

}  // namespace
}  // namespace reprise::shard
