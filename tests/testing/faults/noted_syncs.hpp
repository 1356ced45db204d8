#pragma once

#include "testing/test.hpp"

/// noted_syncs.cpp replaces fsync, renameat and unlinkat in each program that links it, by
/// functions that do the same and record the call.
namespace reprise::test {

/// Returns the calls recorded since the last time, in order: "sync PATH", "rename PATH TO", "remove
/// PATH". Paths are absolute, as they were at the call; calls that failed are left out.
std::vector<std::string> take_noted_calls();

/// From now on each fsync of this path fails as on a broken disk (EIO). An empty path ends this.
void break_sync_of(const std::string& path);

}  // namespace reprise::test
