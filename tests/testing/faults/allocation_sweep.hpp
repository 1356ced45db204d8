#pragma once

#include "counting_new.hpp"
#include "testing/test.hpp"

#include <new>

namespace reprise::test {

/// Repeats the call: first its first allocation fails, then its second one, and so on until the
/// call succeeds. After each failure `check` has to find that nothing changed.
template <class Call, class Check>
void fail_each_allocation(Call&& call, Check&& check) {
  constexpr std::size_t kMaxAllocations = 10000;
  for (std::size_t k = 1; k < kMaxAllocations; ++k) {
    SCOPED_TRACE(testing::Message() << "allocation " << k << " fails");
    fail_allocation(k);
    bool thrown = false;
    try {
      call();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    const bool failed = allocation_failed();
    fail_allocation(0);
    if (!thrown) {
      EXPECT_FALSE(failed) << "the failure was swallowed";
      return;
    }
    ASSERT_TRUE(failed) << "bad_alloc though memory was there";
    check();
    if (testing::Test::HasFailure()) {
      return;
    }
  }
  FAIL() << "the call allocates without end";
}

}  // namespace reprise::test
