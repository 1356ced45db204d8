#include "limiter/limiter.hpp"
#include "testing/test.hpp"

namespace reprise::limiter {
namespace {

using Answer = Limiter::Answer;
using Gate = QueueGate<base::StdSync>;
constexpr std::size_t kMaxItems = 1000;

/// Stands for the function that counts the waiting items, which is slow. Fails the test if the gate
/// calls it although the gate knows of room.
std::size_t fail_on_count() {
  ADD_FAILURE() << "counted the items although there was room";
  return 0;
}

TEST(QueueGate, RefusesSizesOutsideTheCapacityAndBatchesBeyondTheSize) {
  for (const std::size_t size : {std::size_t{0}, kMaxItems + 1}) {
    test::expect_refusal(
        [&] { Limiter(Queue{size}, kMaxItems, 1); },
        {"Queue::size is " + std::to_string(size) + ";", "1 to capacity_steps = 1000"});
  }
  EXPECT_NO_THROW(Limiter(Queue{kMaxItems}, kMaxItems, 1));
  const Limiter limiter(Queue{64}, kMaxItems, 1);
  EXPECT_NO_THROW(limiter.check_batch(64));
  test::expect_refusal([&] { limiter.check_batch(65); },
                       {"batch size is 65;", "at most Queue::size = 64"});
}

TEST(QueueGate, TheBlocksOfAllWritersTogetherAreHalfTheSize) {
  const struct {
    std::size_t size, writers, block;
  } cases[] = {{1, 1, 1}, {64, 8, 4}, {64, 256, 1}, {1000, 1, 64}, {9, 2, 2}};
  for (const auto& [size, writers, block] : cases) {
    Limiter limiter(Queue{size}, kMaxItems, writers);
    EXPECT_TRUE(limiter.limits_inserts());
    EXPECT_EQ(limiter.book_inserts(fail_on_count), block)
        << size << " items, " << writers << " writers";
  }
}

TEST(QueueGate, BooksNoMoreThanThereIsRoomForAndThenCountsTheItems) {
  Gate gate(10, 4);
  EXPECT_EQ(gate.book_inserts(fail_on_count), 4U);
  EXPECT_EQ(gate.book_inserts(fail_on_count), 4U);
  EXPECT_EQ(gate.book_inserts(fail_on_count), 2U) << "what is left of the room";
  EXPECT_EQ(gate.book_inserts([] { return 10; }), 0U);
  EXPECT_EQ(gate.book_inserts([] { return 11; }), 0U);
  EXPECT_EQ(gate.book_inserts([] { return 5; }), 4U);
  EXPECT_EQ(gate.book_inserts(fail_on_count), 1U);
  EXPECT_EQ(gate.book_inserts([] { return 9; }), 1U);
}

TEST(QueueGate, HasAfterALoadTheRoomThatTheLoadedItemsLeave) {
  Gate gate(10, 4);
  gate.restore(7);
  EXPECT_EQ(gate.book_inserts(fail_on_count), 3U);
  EXPECT_EQ(gate.book_inserts([] { return 10; }), 0U);
  Gate full(10, 4);
  full.restore(12);
  EXPECT_EQ(full.book_inserts([] { return 12; }), 0U);
}

TEST(QueueGate, RoomThatTwoWritersFindAtTheSameTimeIsBookedOnce) {
  Gate gate(10, 10);
  ASSERT_EQ(gate.book_inserts(fail_on_count), 10U);
  std::size_t booked_meanwhile = 0;
  // While this writer counts 4 items, another writer counts them too and books the 6 other places.
  const std::size_t booked = gate.book_inserts([&]() -> std::size_t {
    if (booked_meanwhile == 0) {
      booked_meanwhile = gate.book_inserts([] { return 4; });
      return 4;
    }
    return 10;
  });
  EXPECT_EQ(booked_meanwhile, 6U);
  EXPECT_EQ(booked, 0U) << "the same room was given away twice";
}

TEST(QueueGate, AdmitsABatchOnceItsItemsWaitAndReservesThem) {
  Limiter limiter(Queue{64}, kMaxItems, 1);
  const auto eight = [] { return 8; };
  EXPECT_EQ(limiter.needed(9), 9U);
  EXPECT_EQ(limiter.admit_samples(9, eight), Answer::TooFewItems);
  EXPECT_EQ(limiter.admit_samples(5, eight), Answer::Admitted);
  EXPECT_EQ(limiter.admit_samples(4, eight), Answer::TooFewItems) << "5 are about to be drawn";
  EXPECT_EQ(limiter.admit_samples(3, eight), Answer::Admitted);
  EXPECT_EQ(limiter.admit_samples(1, eight), Answer::TooFewItems);
  limiter.batch_drawn(5);
  EXPECT_EQ(limiter.admit_samples(1, [] { return 3; }), Answer::TooFewItems);
  limiter.batch_drawn(3);
  limiter.return_samples(3);
  EXPECT_EQ(limiter.admit_samples(8, eight), Answer::Admitted) << "the batch of 3 drew nothing";
}

TEST(QueueGate, ItemsThatTwoSamplersFindAtTheSameTimeAreReservedOnce) {
  Gate gate(10, 1);
  bool overtaken = false;
  // After this sampler has counted the items and before it reserves them, another sampler reserves
  // and draws the same items.
  EXPECT_FALSE(gate.reserve(6, [&]() -> std::size_t {
    if (overtaken) {
      return 0;
    }
    overtaken = true;
    EXPECT_TRUE(gate.reserve(6, [] { return 6; }));
    gate.release(6);
    return 6;
  }));
}

TEST(QueueGate, ExplainsHowManyItemsWait) {
  EXPECT_EQ(Limiter(Queue{64}, kMaxItems, 1).explain(64),
            "64 items wait to be sampled, of 64 allowed");
  EXPECT_EQ(Limiter(Unlimited{}, kMaxItems, 1).explain(0), "unlimited: nobody waits");
}

TEST(QueueGate, ThreadsOvershootByAtMostABlockEachAndDrawNoItemTwice) {
  constexpr std::size_t kQueued = 40;
  constexpr std::size_t kBooked = 4;
  constexpr std::size_t kWriters = 4;
  constexpr std::size_t kSamplers = 2;
  constexpr std::size_t kBatch = 10;
  const std::size_t batches = test::scaled(5000, 500);
  Gate gate(kQueued, kBooked);
  // The count is signed, so that items drawn twice show as a negative number.
  std::atomic<std::int64_t> waiting{0};
  std::atomic<bool> done{false};
  std::array<std::int64_t, kWriters> highest_counts{};
  std::array<std::int64_t, kSamplers> lowest_counts{};
  const auto count = [&] { return static_cast<std::size_t>(waiting.load()); };
  {
    std::vector<std::jthread> writers;
    std::vector<std::jthread> samplers;
    test::start(writers, kWriters, [&](std::size_t w) {
      while (!done.load()) {
        std::size_t booked = gate.book_inserts(count);
        if (booked == 0) {
          std::this_thread::yield();
        }
        for (; booked > 0; --booked) {
          highest_counts[w] = std::max(highest_counts[w], waiting.fetch_add(1) + 1);
        }
      }
    });
    test::start(samplers, kSamplers, [&](std::size_t s) {
      for (std::size_t i = 0; i < batches;) {
        if (gate.reserve(kBatch, count)) {
          const auto drawn = static_cast<std::int64_t>(kBatch);
          lowest_counts[s] = std::min(lowest_counts[s], waiting.fetch_sub(drawn) - drawn);
          gate.release(kBatch);
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
    samplers.clear();
    done.store(true);
  }
  EXPECT_LE(*std::ranges::max_element(highest_counts),
            static_cast<std::int64_t>(kQueued + (kWriters - 1) * kBooked));
  EXPECT_GE(*std::ranges::min_element(lowest_counts), 0);
}

}  // namespace
}  // namespace reprise::limiter
