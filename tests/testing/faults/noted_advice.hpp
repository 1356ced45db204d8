#pragma once

#include <cstddef>
#include <span>
#include <vector>

/// Replaces madvise and getrusage in the program that it is linked into. Each thread by itself.
namespace reprise::test {

/// From now on getrusage finds so much more read from the disk whenever it is asked; it says the
/// truth until then.
void disk_reads_are(long more);
/// The ranges that were advised to be read ahead since the last call.
std::vector<std::span<const std::byte>> take_read_ahead();

}  // namespace reprise::test
