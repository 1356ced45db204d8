#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"
#include "testing/fixtures/threads.hpp"
#include "testing/program/scale.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <optional>
#include <thread>
#include <vector>

namespace reprise::test {
namespace {

TEST(Accounting, StatsDoNotIngest) {
  Line line;
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
  Line line;
  const Stats empty = line.replay.stats();
  EXPECT_EQ(empty.committed_steps, 0U);
  EXPECT_EQ(empty.samples_per_insert, 0.0);
  EXPECT_EQ(empty.chunks_touched, 0U);
  EXPECT_GE(empty.chunks, 64U / 8 + 8) << "the capacity, and one for each writer";
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

/// Threads append, draw and update; at each barrier nothing is in flight and the sums must agree.
TEST(Accounting, HoldsAtEveryQuiescentPointOfConcurrentUse) {
  Line line(Small{
      .capacity_steps = 777, .window = Transitions{.n_step = 3, .frame_stack = 2}, .shards = 3});
  constexpr std::size_t kWriters = 3;
  constexpr std::size_t kSamplers = 2;
  const std::size_t rounds = scaled(400, 40);
  std::uint64_t committed_at_last = 0;
  std::uint64_t evicted_at_last = 0;
  const auto check = [&]() noexcept {
    const Stats stats = line.replay.stats();
    EXPECT_EQ(stats.committed_steps, stats.resident_steps + stats.excess_steps +
                                         stats.evicted_steps + stats.pending_steps);
    EXPECT_GE(stats.committed_steps, committed_at_last);
    EXPECT_GE(stats.evicted_steps, evicted_at_last);
    EXPECT_LE(stats.resident_steps, 777U);
    committed_at_last = stats.committed_steps;
    evicted_at_last = stats.evicted_steps;
  };
  std::barrier barrier(static_cast<std::ptrdiff_t>(kWriters + kSamplers), check);
  std::vector<std::jthread> threads;
  start(threads, kWriters, [&](std::size_t w) {
    std::optional<Writer> writer;
    for (std::size_t round = 0; round < rounds; ++round) {
      if (!writer) {
        writer.emplace(line.replay.writer());
      }
      for (std::uint64_t step = 0; step < 40; ++step) {
        line.append(*writer, step, step % 17 == w ? End::Terminated : End::Continue);
      }
      if (round % 5 == w) {
        writer.reset();
      }
      barrier.arrive_and_wait();
    }
  });
  start(threads, kSamplers, [&](std::size_t s) {
    Sampler sampler = line.replay.sampler({.seed = s});
    std::vector<float> priorities(16, 0.5F);
    for (std::size_t round = 0; round < rounds; ++round) {
      for (int i = 0; i < 3; ++i) {
        if (const SampleResult batch = sampler.sample(16, kAtOnce)) {
          line.replay.update_priorities(batch->keys(), priorities);
        }
      }
      barrier.arrive_and_wait();
    }
  });
  threads.clear();
  const Stats stats = line.replay.stats();
  EXPECT_EQ(stats.committed_steps, kWriters * rounds * 40);
  EXPECT_EQ(line.replay.size(), std::min<std::size_t>(777, stats.committed_steps));
  EXPECT_EQ(stats.sampled_items, 16 * stats.sampled_batches);
  EXPECT_EQ(stats.applied_updates + stats.stale_updates, stats.sampled_items);
  EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
  expect_accounted(line.replay);
}

}  // namespace
}  // namespace reprise::test
