#include <reprise/device_ring.hpp>

#include "device/devices.hpp"
#include "testing/fixtures/forwarding_source.hpp"
#include "testing/test.hpp"

#include <new>

namespace reprise::test {
namespace {

using Numbers = std::vector<std::uint64_t>;

Numbers numbers_of(std::span<const std::uint64_t> span) {
  return {span.begin(), span.end()};
}

/// Lets a device work on 60 batches. Expects the work to read the items that a sampler of the same
/// seed draws.
template <class AnyDevice>
void expect_batches_of_a_sampler(AnyDevice& device, std::size_t depth) {
  NumberedBuffer line;
  fill(line);
  Sampler sampler = line.replay.sampler({.seed = 4});
  Sampler same_seed = line.replay.sampler({.seed = 4});
  DeviceRing ring(same_seed, 64, device, depth);
  int batches_read = 0;
  for (int i = 0; i < 60; ++i) {
    const SampleResult batch = ring.next(nullptr);
    ASSERT_TRUE(batch);
    const SampleResult expected = sampler.sample(64);
    const Numbers expected_ids = numbers_of(expected->now(line.id));
    ASSERT_EQ(numbers_of(batch->now(line.id)), expected_ids);
    device.work([&batches_read, i, expected_ids,
                 expected_positions = numbers_of(expected->positions()),
                 ids = ring.at(batch->now(line.id)), positions = ring.at(batch->positions())] {
      EXPECT_EQ(numbers_of({ids, 64}), expected_ids) << "batch " << i;
      EXPECT_EQ(numbers_of({positions, 64}), expected_positions) << "batch " << i;
      ++batches_read;
    });
  }
  device.finish();
  EXPECT_EQ(batches_read, 60);
}

/// Lets a call begin to wait, and ends the wait when it is asked again.
class EndsTheWait final : public WaitHook {
 public:
  [[nodiscard]] bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    return waited.count() == 0;
  }
};

/// The parameters are `Scripted::Eager::copies`, `Scripted::Eager::work` and the ring's depth.
class RingOn : public testing::TestWithParam<std::tuple<bool, bool, std::size_t>> {
 public:
  Scripted device{
      Scripted::Eager{.copies = std::get<0>(GetParam()), .work = std::get<1>(GetParam())}};
  std::size_t depth = std::get<2>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Devices, RingOn,
                         testing::Combine(testing::Bool(), testing::Bool(),
                                          testing::Values(1U, 2U, 3U, 5U)));

TEST_P(RingOn, TheDeviceWorkReadsTheBatchesOfASampler) {
  expect_batches_of_a_sampler(device, depth);
  EXPECT_TRUE(device.blocks[0].empty() && device.blocks[1].empty());
}

TEST_P(RingOn, AllocatesOnceAndWaitsForCopiesBeforeItFreesTheirMemory) {
  NumberedBuffer line;
  fill(line);
  {
    Sampler sampler = line.replay.sampler();
    DeviceRing ring(sampler, 16, device, depth);
    const auto before = device.blocks[1];
    EXPECT_EQ(before.size(), depth);
    EXPECT_EQ(device.blocks[0].size(), depth);
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(ring.next(nullptr));
    }
    EXPECT_EQ(device.blocks[1], before);
  }
  EXPECT_EQ(device.events, 0);
  EXPECT_TRUE(device.blocks[0].empty() && device.blocks[1].empty());
}

TEST(DeviceRing, TheDeviceMayCopyAndWorkOnItsOwnThreads) {
  Threaded device;
  expect_batches_of_a_sampler(device, 3);
}

TEST(DeviceRing, BeginsAsManyCopiesAsItsDepthWithoutWaiting) {
  NumberedBuffer line;
  fill(line);
  Scripted device({.copies = false, .work = false});
  Sampler sampler = line.replay.sampler();
  DeviceRing ring(sampler, 8, device, 3);
  ASSERT_TRUE(ring.next(nullptr));
  EXPECT_EQ(device.copies_under_way, 3);
}

TEST(DeviceRing, ReturnsBatchesUnderWayBeforeItWaitsOrReportsWhyThereIsNoNext) {
  NumberedBuffer line({.capacity_steps = 64,
                       .selectors = {kRawProportional},
                       .rate_limiter = SampleToInsertRatio{
                           .samples_per_insert = 1.0, .min_size = 1, .error_buffer = 40.0}});
  fill(line);  // The 40 steps allow four batches of 16, but no fifth.
  Scripted device({.copies = true, .work = true});
  Sampler sampler = line.replay.sampler();
  DeviceRing ring(sampler, 16, device, 2);
  for (int i = 0; i < 4; ++i) {
    // The call would hang here if it waited for the batch after this one.
    const SampleResult batch = ring.next(nullptr);
    ASSERT_TRUE(batch) << i << ": " << batch.status().message();
    EXPECT_EQ(batch.status().code, SampleStatus::Code::Ok);
  }
  const SampleResult none = ring.next(nullptr, kNoWait);
  EXPECT_FALSE(none);
  EXPECT_EQ(none.status().code, SampleStatus::Code::TimedOut);
  EndsTheWait hook;
  EXPECT_EQ(ring.next(nullptr, {.hook = &hook}).status().code, SampleStatus::Code::Stopped);
  line.append_many(40, 32, [](std::uint64_t) { return 1.0F; });
  ASSERT_TRUE(ring.next(nullptr));
  line.replay.close();
  const SampleResult last = ring.next(nullptr);
  ASSERT_TRUE(last);
  const auto lengths = last->lengths();
  EXPECT_EQ(ring.next(nullptr).status().code, SampleStatus::Code::Closed);
  EXPECT_THROW(static_cast<void>(ring.at(lengths)), std::invalid_argument);
}

TEST(DeviceRing, RefusesWrongOptionsAndMemoryThatIsNotInTheBatch) {
  NumberedBuffer line;
  fill(line);
  Scripted device({.copies = true, .work = true});
  Sampler sampler = line.replay.sampler();
  EXPECT_THROW(DeviceRing(sampler, 8, device, 0), std::invalid_argument);
  EXPECT_THROW(DeviceRing(sampler, 0, device), std::invalid_argument);
  DeviceRing ring(sampler, 8, device, 2);
  EXPECT_THROW(static_cast<void>(ring.at(std::span(&line, 1))), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(ring.next(nullptr, {.beta = 2.0F})), std::invalid_argument);
  const SampleResult first = ring.next(nullptr);
  const auto begin = first->now(line.id);
  EXPECT_NO_THROW(static_cast<void>(ring.at(first->lengths())));
  EXPECT_THROW(static_cast<void>(ring.at(std::span(begin.data() - 1, 1))), std::invalid_argument);
  ASSERT_TRUE(ring.next(nullptr));
  EXPECT_THROW(static_cast<void>(ring.at(begin)), std::invalid_argument);
}

TEST(DeviceRing, RefusesASourceWhoseBatchesAreNotInTheDevicesMemory) {
  class Elsewhere final : public ForwardingSource {
   public:
    using ForwardingSource::ForwardingSource;
    Batch make_batch(std::size_t n, std::pmr::memory_resource* /*memory*/) const override {
      return source_.make_batch(n);
    }
  };
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  Elsewhere elsewhere(sampler);
  Scripted device({.copies = true, .work = true});
  EXPECT_THROW(DeviceRing(elsewhere, 8, device), std::invalid_argument);
  EXPECT_TRUE(device.blocks[0].empty() && device.blocks[1].empty());
}

TEST(DeviceRing, CanBeMadeAndUsedAfterADeviceHasFailed) {
  NumberedBuffer line;
  fill(line);
  Scripted device({.copies = true, .work = true});
  device.fail_at = 3;  // The allocation of the second slab's memory on the device, from 0.
  Sampler sampler = line.replay.sampler();
  EXPECT_THROW(DeviceRing(sampler, 8, device, 2), std::bad_alloc);
  EXPECT_TRUE(device.blocks[0].empty() && device.blocks[1].empty());
  EXPECT_EQ(device.events, 0);
  device.fail_event = true;
  EXPECT_THROW(DeviceRing(sampler, 8, device, 2), std::runtime_error);
  EXPECT_TRUE(device.blocks[0].empty() && device.blocks[1].empty());
  device.fail_event = false;
  DeviceRing ring(sampler, 8, device, 2);
  device.fail_copy = true;
  EXPECT_THROW(static_cast<void>(ring.next(nullptr)), std::runtime_error);
  device.fail_copy = false;
  ASSERT_TRUE(ring.next(nullptr));
}

TEST(DeviceRing, CopiesBatchesOfUniqueFrames) {
  Schema schema;
  const auto frame = schema.observation<std::uint8_t>("frame", {8});
  ReplayBuffer replay(schema, {.capacity_steps = 64,
                               .window = Transitions{.n_step = 1, .frame_stack = 4},
                               .selectors = {Uniform{}}});
  Writer writer = replay.writer();
  writer.begin_episode();
  std::ranges::fill(writer.now(frame), std::uint8_t{0});
  for (std::uint8_t i = 1; i < 20; ++i) {
    std::ranges::fill(writer.next(frame), i);
    writer.commit();
  }
  Scripted device({.copies = false, .work = true});
  Sampler sampler = replay.sampler({.unique_frames = true});
  DeviceRing ring(sampler, 8, device);
  const SampleResult batch = ring.next(nullptr);
  device.finish();
  const std::span<std::uint8_t> here = batch->frames(frame);
  // 8 items of a stack of 4 frames and the next frame, each of 8 bytes.
  EXPECT_EQ(here.size(), 8U * 5 * 8);
  EXPECT_TRUE(std::equal(here.begin(), here.end(), ring.at(here)));
}

TEST(DeviceRing, CopiesTheBatchesOfAMixedSampler) {
  NumberedBuffer lines[] = {
      NumberedBuffer({.capacity_steps = 64, .selectors = {kRawProportional}, .key_tag = 1}),
      NumberedBuffer({.capacity_steps = 64, .selectors = {kRawProportional}, .key_tag = 2})};
  for (NumberedBuffer& line : lines) {
    fill(line);
  }
  const std::vector<MixedPart> parts{{lines[0].replay, 3}, {lines[1].replay, 5}};
  MixedSampler mixed(parts, {.seed = 4});
  MixedSampler same_seed(parts, {.seed = 4});
  Scripted device({.copies = false, .work = true});
  DeviceRing ring(mixed, 8, device);
  for (int i = 0; i < 10; ++i) {
    const SampleResult batch = ring.next(nullptr);
    const SampleResult expected = same_seed.sample();
    ASSERT_TRUE(batch && expected);
    device.finish();
    EXPECT_TRUE(std::ranges::equal(batch->keys(), expected->keys())) << i;
    EXPECT_TRUE(
        std::equal(batch->weights().begin(), batch->weights().end(), ring.at(batch->weights())));
  }
}

TEST(PinnedMemory, IsAllocatedByTheDeviceAndRefusesALargerAlignment) {
  NumberedBuffer line;
  fill(line);
  Scripted device({.copies = true, .work = true});
  PinnedMemory memory(device);
  EXPECT_THROW(static_cast<void>(memory.allocate(64, 512)), std::invalid_argument);
  void* const nothing = memory.allocate(0, 256);
  EXPECT_EQ(device.blocks[1].size(), 1U);
  memory.deallocate(nothing, 0, 256);
  EXPECT_TRUE(device.blocks[1].empty());
  {
    Sampler sampler = line.replay.sampler({.memory = &memory});
    ASSERT_TRUE(sampler.sample(16));
    EXPECT_EQ(device.blocks[1].size(), 1U);
  }
  EXPECT_TRUE(device.blocks[0].empty() && device.blocks[1].empty());
}

}  // namespace
}  // namespace reprise::test
