#pragma once

#include "../record/memory_file_system.hpp"
#include "testing/fixtures/rng.hpp"

#include <span>

namespace reprise::test {

/// What of the operations since the last sync is on the disk.
enum class Unsynced { None, All, AtRandom };

/// The files that a machine may find after it lost power at some moment: everything that was synced
/// by then, and of the rest what `unsynced` says. At random, each renaming, each name made or
/// removed, is there or not, and each write as a whole, not at all, or torn: sector by sector or
/// up to some byte. Bytes that never came are zeros or anything, where a later one made the file
/// longer.
MemoryFiles files_after_crash(std::span<const Operation> operations, Unsynced unsynced, Rng& rng);

}  // namespace reprise::test
