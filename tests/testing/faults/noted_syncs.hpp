#pragma once

#include <string>
#include <vector>

/// Replaces fsync, renameat and unlinkat in the program that it is linked into: they do what they
/// did, and are noted.
namespace reprise::test {

/// What was done since the last call of this, in order: "sync PATH", "rename PATH TO", "remove
/// PATH". Paths are absolute, as they were then; calls that failed are left out.
std::vector<std::string> take_noted_calls();

/// From now on, any fsync of this path answers that the disk is broken (EIO); an empty path: of
/// none.
void break_sync_of(const std::string& path);

}  // namespace reprise::test
