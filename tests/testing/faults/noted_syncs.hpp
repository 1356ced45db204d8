#pragma once

#include "testing/test.hpp"

/// Replaces fsync, renameat and unlinkat in a program by functions that do the same and record it.
namespace reprise::test {

/// The calls recorded since the last time, in order: "sync PATH", "rename PATH TO", "remove PATH".
/// Paths are absolute and of that moment; calls that failed are left out.
std::vector<std::string> take_noted_calls();

/// From now on, any fsync of this path answers that the disk is broken (EIO); an empty path: of
/// none.
void break_sync_of(const std::string& path);

}  // namespace reprise::test
