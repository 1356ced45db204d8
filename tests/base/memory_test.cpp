#include "base/memory.hpp"

#include "testing/faults/child.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
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
       {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{4097},
        Region::kHugePageBytes - 1, Region::kHugePageBytes, Region::kHugePageBytes + 1,
        3 * Region::kHugePageBytes}) {
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

TEST(Region, LargeRegionsStartAtAHugePageOnLinux) {
#if defined(__linux__)
  for (std::size_t extra = 0; extra < 5; ++extra) {
    const Region region = Region::map(Region::kHugePageBytes * (1 + extra) + extra);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data()) % Region::kHugePageBytes, 0U);
  }
#else
  GTEST_SKIP();
#endif
}

#if defined(__linux__)
/// Writes the first byte of each 2 MiB of a region. Returns how many of its pages are in memory.
std::vector<std::size_t> pages_after_a_touch(const Region& region) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(region.size() / page);
  for (std::size_t at = 0; at < region.size(); at += Region::kHugePageBytes) {
    region.data()[at] = std::byte{1};
  }
  EXPECT_EQ(::mincore(region.data(), region.size(), resident.data()), 0);
  std::vector<std::size_t> pages(region.size() / Region::kHugePageBytes);
  for (std::size_t i = 0; i < resident.size(); ++i) {
    pages[i * page / Region::kHugePageBytes] += resident[i] & 1U;
  }
  return pages;
}

TEST(Region, TakesMemoryOnlyForPagesThatAreTouched) {
  const Region region = Region::map(4 * Region::kHugePageBytes);
  EXPECT_EQ(pages_after_a_touch(region), (std::vector<std::size_t>{1, 1, 1, 1}));
}

/// Whether the process has asked for huge pages at this address, which it may not have got.
bool asks_for_huge_pages(const std::byte* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool within = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
      within = begin <= at && at < end;
    } else if (within && line.starts_with("VmFlags:")) {
      return line.find(" hg") != std::string::npos;
    }
  }
  ADD_FAILURE() << "/proc/self/smaps does not have the address";
  return false;
}

TEST(Region, AsksOnlyForHugePagesThatWillBeFilledEntirely) {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string enabled;
  std::getline(file, enabled);
  if (enabled.empty() || enabled.find("[never]") != std::string::npos) {
    GTEST_SKIP() << "this machine gives no transparent huge pages: '" << enabled << "'";
  }
  const Region region = Region::map(5 * Region::kHugePageBytes);
  region.expect_full(1, 4 * Region::kHugePageBytes - 2);
  region.expect_full(4 * Region::kHugePageBytes, Region::kHugePageBytes - 1);
  std::vector<bool> asked_for;
  for (std::size_t at = 0; at < region.size(); at += Region::kHugePageBytes) {
    asked_for.push_back(asks_for_huge_pages(region.data() + at));
  }
  EXPECT_EQ(asked_for, (std::vector<bool>{false, true, true, false, false}));
}
#endif

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

TEST(Region, ASizeThatCannotBeMappedThrows) {
  constexpr std::size_t kMaxSize = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW(static_cast<void>(Region::map(kMaxSize)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(Region::map(kMaxSize / 2)), std::bad_alloc);
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

TEST(LazyArray, AProductThatOverflowsThrows) {
  constexpr std::size_t kMaxSize = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW(LazyArray<std::uint64_t>{kMaxSize / 8 + 2}, std::bad_alloc);
  EXPECT_THROW(LazyArray<std::uint64_t>{kMaxSize}, std::bad_alloc);
}

TEST(LazyArray, AlignsItsElements) {
  struct alignas(128) Aligned {
    unsigned char bytes[128];
  };
  const LazyArray<Aligned> array(3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.data()) % alignof(Aligned), 0U);
}

}  // namespace
}  // namespace reprise::base
