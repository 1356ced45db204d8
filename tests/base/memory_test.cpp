#include "base/memory.hpp"

#include "../support/child.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>

#include <vector>
#endif

namespace reprise::base {
namespace {

static_assert(!std::is_copy_constructible_v<Region>);
static_assert(!std::is_copy_constructible_v<LazyArray<int>>);
static_assert(std::is_nothrow_move_constructible_v<LazyArray<int>>);

bool all_zero(const std::byte* data, std::size_t size) {
  return std::all_of(data, data + size, [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(Region, IsZeroedAndWritableAtEverySize) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{4095}, std::size_t{4097}, Region::kHugePageBytes - 1,
        Region::kHugePageBytes, Region::kHugePageBytes + 1, 3 * Region::kHugePageBytes}) {
    SCOPED_TRACE(size);
    const Region region = Region::map(size);
    ASSERT_EQ(region.size(), size);
    ASSERT_TRUE(all_zero(region.data(), size));
    std::fill_n(region.data(), size, std::byte{0xFF});
  }
}

TEST(Region, NoBytesAreAnEmptyRegion) {
  const Region region = Region::map(0);
  EXPECT_EQ(region.size(), 0U);
  EXPECT_EQ(region.data(), nullptr);
}

TEST(Region, LargeOnesStartOnAHugePageWhereTheSystemMapsMemory) {
#if defined(__linux__)
  for (std::size_t extra = 0; extra < 5; ++extra) {
    const Region region = Region::map(Region::kHugePageBytes * (1 + extra) + extra);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data()) % Region::kHugePageBytes, 0U);
  }
#else
  GTEST_SKIP();
#endif
}

TEST(Region, TakesNoMemoryBeforeItIsTouched) {
#if defined(__linux__)
  const Region region = Region::map(64 * Region::kHugePageBytes);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(region.size() / page);
  region.data()[0] = std::byte{1};
  ASSERT_EQ(::mincore(region.data(), region.size(), resident.data()), 0);
  const auto touched = std::count_if(resident.begin(), resident.end(),
                                     [](unsigned char state) { return (state & 1U) != 0; });
  EXPECT_GE(touched, 1);
  EXPECT_LE(static_cast<std::size_t>(touched) * page, Region::kHugePageBytes);
#else
  GTEST_SKIP();
#endif
}

TEST(Region, ASparseOneTakesThePagesThatAreTouchedAndNoMore) {
#if defined(__linux__)
  const Region region = Region::map_sparse(8 * Region::kHugePageBytes);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(region.size() / page);
  for (std::size_t at = 0; at < region.size(); at += Region::kHugePageBytes) {
    region.data()[at] = std::byte{1};
  }
  ASSERT_EQ(::mincore(region.data(), region.size(), resident.data()), 0);
  EXPECT_EQ(std::count_if(resident.begin(), resident.end(),
                          [](unsigned char state) { return (state & 1U) != 0; }),
            8);
#else
  GTEST_SKIP();
#endif
}

TEST(Region, ASparseOneIsZeroedAndWritableAtEverySize) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4097},
                                 Region::kHugePageBytes, 3 * Region::kHugePageBytes + 1}) {
    const Region region = Region::map_sparse(size);
    ASSERT_EQ(region.size(), size);
    ASSERT_TRUE(all_zero(region.data(), size));
    std::fill_n(region.data(), size, std::byte{0xFF});
  }
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW(static_cast<void>(Region::map_sparse(kMost)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(Region::map_sparse(kMost / 2)), std::bad_alloc);
}

TEST(Region, MovingLeavesAnEmptyRegion) {
  Region first = Region::map(100);
  std::byte* const data = first.data();
  Region second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_EQ(first.size(), 0U);
  Region third = Region::map(200);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), 100U);
  EXPECT_EQ(second.data(), nullptr);
}

TEST(Region, WhatCannotBeMappedThrows) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW(static_cast<void>(Region::map(kMost)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(Region::map(kMost / 2)), std::bad_alloc);
}

TEST(LazyArray, HoldsElementsThatStartAsZero) {
  LazyArray<std::uint64_t> array(1000);
  EXPECT_EQ(array.size(), 1000U);
  EXPECT_EQ(array.bytes(), 8000U);
  EXPECT_EQ(array[999], 0U);
  array[999] = 7;
  const LazyArray<std::uint64_t> moved(std::move(array));
  EXPECT_EQ(moved[999], 7U);
  EXPECT_EQ(moved.data()[999], 7U);
  EXPECT_EQ(array.size(), 0U);
}

#if defined(__linux__)
TEST(Region, IsZeroInAForkedChildIfItIsToBeWipedAndACopyIfNot) {
  for (const bool wipe : {true, false}) {
    for (const std::size_t bytes : {std::size_t{4}, Region::kHugePageBytes}) {
      Region region = Region::map(bytes);
      ASSERT_TRUE(!wipe || region.wipe_on_fork());
      const std::byte written{7};
      region.data()[bytes - 1] = written;
      test::expect_of_child([&] {
        const bool expected = region.data()[bytes - 1] == (wipe ? std::byte{0} : written);
        return std::string(expected ? "" : "not what a child is to see");
      });
      EXPECT_EQ(region.data()[bytes - 1], written);
    }
  }
}
#endif

TEST(LazyArray, AProductThatOverflowsThrows) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW(LazyArray<std::uint64_t>{kMost / 8 + 2}, std::bad_alloc);
  EXPECT_THROW(LazyArray<std::uint64_t>{kMost}, std::bad_alloc);
}

TEST(LazyArray, ElementsHaveTheirAlignment) {
  struct alignas(128) Line {
    unsigned char bytes[128];
  };
  const LazyArray<Line> array(3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.data()) % alignof(Line), 0U);
}

}  // namespace
}  // namespace reprise::base
