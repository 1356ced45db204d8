#pragma once

#include "testing/test.hpp"

/// noted_advice.cpp replaces madvise and getrusage in each program that links it. Each thread has
/// its own settings and records.
namespace reprise::test {

/// From now on each getrusage of this thread reports `reads_per_call` block reads from the disk
/// (ru_inblock) beyond the previous call's.
void set_disk_reads_per_call(long reads_per_call);
/// The ranges for which this thread advised read-ahead since the last call.
std::vector<std::span<const std::byte>> take_read_ahead();

}  // namespace reprise::test
