#pragma once

#include "../record/memory_file_system.hpp"
#include "testing/test.hpp"

namespace reprise::test {

/// Which operations since the last sync have reached the disk.
enum class Unsynced { None, All, AtRandom };

/// The files that a machine may find after a power failure: everything that was synced before, and
/// of the rest what `unsynced` says. At random, each name that was made, changed or removed is
/// there or not, and each write is there whole, not at all, or torn: sector by sector or up to some
/// byte. Missing bytes are zeros or garbage if a later write made the file longer.
MemoryFiles files_after_crash(std::span<const Operation> operations, Unsynced unsynced, Rng& rng);

}  // namespace reprise::test
