#pragma once

#include "testing/test.hpp"

/// Replaces madvise and getrusage in the program that it is linked into, for each thread by itself.
namespace reprise::test {

/// From now on each getrusage reports that `more` has been read from the disk since the one before.
void disk_reads_are(long more);
/// The ranges for which read-ahead was advised since the last call.
std::vector<std::span<const std::byte>> take_read_ahead();

}  // namespace reprise::test
