#pragma once

#include "testing/test.hpp"

/// Replaces the global operator new of the program that it is linked into.
namespace reprise::test {

/// Allocations by operator new, of all threads, since the program began.
std::size_t allocations();

/// Makes the k-th allocation of this thread from now on fail, k from 1; 0: none.
void fail_allocation(std::size_t k);

/// Whether that allocation has failed already.
bool allocation_failed();

}  // namespace reprise::test
