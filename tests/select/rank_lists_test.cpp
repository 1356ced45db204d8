#include "select/rank_lists.hpp"

#include "testing/test.hpp"

namespace reprise::select {
namespace {

std::set<std::uint32_t> leaves_in(const RankLists& lists, std::uint16_t bucket) {
  std::set<std::uint32_t> leaves;
  for (std::uint32_t i = 0; i < lists.count(bucket); ++i) {
    EXPECT_TRUE(leaves.insert(lists.at(bucket, i)).second) << "a leaf is there twice";
  }
  return leaves;
}

TEST(RankLists, AgreeWithAModelAlsoInBucketsOfManyBlocks) {
  constexpr std::size_t kLeaves = 10000;  // So many leaves need more than one directory.
  constexpr std::size_t kUsed = 5;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    test::Rng rng(seed);
    RankLists lists(kLeaves);
    std::vector<std::set<std::uint32_t>> model(kUsed);
    // Leaves are mostly added, then mostly removed, and so on, so that buckets grow to nearly all
    // leaves and shrink to none.
    for (int wave = 0; wave < 6; ++wave) {
      const double adding = wave % 2 == 0 ? 0.9 : 0.1;
      const std::size_t favourite = rng.below(kUsed);
      for (int step = 0; step < 30000; ++step) {
        const auto leaf = static_cast<std::uint32_t>(rng.below(kLeaves));
        const std::uint16_t now = lists.bucket_of(leaf);
        if (now == RankLists::kNone && rng.chance(adding)) {
          const std::size_t to = rng.chance(0.8) ? favourite : rng.below(kUsed);
          lists.add(leaf, static_cast<std::uint16_t>(to));
          model[to].insert(leaf);
        } else if (now != RankLists::kNone && !rng.chance(adding)) {
          lists.remove(leaf);
          ASSERT_EQ(model[now].erase(leaf), 1U);
        }
      }
      for (std::uint16_t bucket = 0; bucket < kUsed; ++bucket) {
        ASSERT_EQ(leaves_in(lists, bucket), model[bucket]);
      }
    }
  }
}

TEST(RankLists, HaveRoomForEveryBucketBegun) {
  constexpr std::uint32_t kLeaves = RankLists::kBuckets + 100;
  RankLists lists(kLeaves);
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::uint32_t leaf = 0; leaf < kLeaves; ++leaf) {
      lists.add(leaf, static_cast<std::uint16_t>((leaf + round) % RankLists::kBuckets));
    }
    EXPECT_EQ(lists.count(50), round <= 50 ? 2U : 1U);
    for (std::uint32_t leaf = 0; leaf < kLeaves; ++leaf) {
      ASSERT_EQ(lists.bucket_of(leaf), (leaf + round) % RankLists::kBuckets);
      lists.remove(leaf);
    }
  }
}

}  // namespace
}  // namespace reprise::select
