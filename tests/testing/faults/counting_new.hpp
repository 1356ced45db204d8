#pragma once

#include "testing/test.hpp"

/// counting_new.cpp replaces the global operator new in each program that links it.
namespace reprise::test {

/// Counts the allocations by operator new in all threads since the program began.
std::size_t allocations();

/// Makes the k-th allocation of this thread from now on fail, counted from 1; with 0 all succeed.
void fail_allocation(std::size_t k);

/// Whether the allocation that `fail_allocation` chose has failed already.
bool allocation_failed();

}  // namespace reprise::test
