#include "shard/fresh_items.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::shard {
namespace {

using Leaves = std::vector<std::uint32_t>;

/// Three chunks of four rows, each an item.
class FreshItemsOf : public testing::Test {
 protected:
  FreshItemsOf() { fresh_.track(); }

  void enter(std::uint32_t chunk, std::uint32_t rows) {
    queue_[chunk].ingested = rows;
    fresh_.enter({chunk, 0, rows, rows, 4 * chunk}, {});
  }
  void draw(const std::vector<storage::Place>& places) { fresh_.drawn(places, {}); }
  Leaves take(std::size_t most) {
    Leaves leaves(most);
    leaves.resize(fresh_.take(leaves));
    return leaves;
  }

  storage::ChunkStore store_{3, 4, 16};
  ChunkQueue queue_{0, 3};
  FreshItems fresh_{store_, queue_, 0};
};

TEST_F(FreshItemsOf, AChunkAreThoseThatNobodyHasDrawn) {
  enter(0, 4);
  EXPECT_EQ(fresh_.size(), 4U);
  draw({{0, 1}, {0, 2}});
  EXPECT_EQ(fresh_.size(), 2U);
  draw({{0, 1}});
  EXPECT_EQ(fresh_.size(), 2U) << "it was not fresh";
  EXPECT_EQ(take(4), (Leaves{0, 3}));
  EXPECT_EQ(fresh_.size(), 0U);
}

TEST_F(FreshItemsOf, AChunkThatLeftAndIsUsedAgainComeAtTheEnd) {
  enter(0, 4);
  enter(1, 4);
  fresh_.leave({0, 0, 4, 4, 0});
  fresh_.emptied(0);
  EXPECT_EQ(fresh_.size(), 4U);
  enter(0, 2);
  EXPECT_EQ(take(12), (Leaves{4, 5, 6, 7, 0, 1}));
}

}  // namespace
}  // namespace reprise::shard
