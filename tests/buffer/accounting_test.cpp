#include "testing/test.hpp"

namespace reprise::test {
namespace {

TEST(Accounting, StatsDoNotIngest) {
  NumberedBuffer line;
  line.append_many(0, 3);
  const Stats before = line.replay.stats();
  EXPECT_EQ(before.resident_steps, 0U);
  EXPECT_EQ(before.pending_steps, 3U);
  EXPECT_EQ(before.queued_chunks, 1U);
  EXPECT_EQ(line.replay.size(), 3U);
  const Stats after = line.replay.stats();
  EXPECT_EQ(after.resident_steps, 3U);
  EXPECT_EQ(after.pending_steps, 0U);
  EXPECT_EQ(after.queued_chunks, 0U);
}

TEST(Accounting, DescribesMemoryAndChunks) {
  NumberedBuffer line;
  const Stats empty = line.replay.stats();
  EXPECT_EQ(empty.committed_steps, 0U);
  EXPECT_EQ(empty.samples_per_insert, 0.0);
  EXPECT_EQ(empty.chunks_touched, 0U);
  EXPECT_GE(empty.chunks, 64U / 8 + 8) << "chunks for the capacity, and one for each writer";
  EXPECT_GE(empty.chunk_bytes, 8 * line.schema.step_bytes());
  EXPECT_GE(empty.reserved_bytes, empty.chunks * empty.chunk_bytes);
  EXPECT_FALSE(empty.limiter.empty());
  line.append_many(0, 1000);
  const Stats full = line.replay.stats();
  EXPECT_EQ(full.writers, 1U);
  EXPECT_GE(full.chunks_touched, 64U / 8);
  EXPECT_LE(full.chunks_touched, full.chunks);
  EXPECT_GT(full.touched_bytes, empty.touched_bytes);
  EXPECT_GE(full.closed_chunks, 1000U / 8 - 1);
  EXPECT_EQ(full.retired_pinned, 0U);
}

}  // namespace
}  // namespace reprise::test
