#pragma once

#include "../record/memory_file_system.hpp"
#include "testing/test.hpp"

namespace reprise::test {

/// Which operations after the last sync have reached the disk.
enum class Unsynced { None, All, AtRandom };

/// The files that a machine may find after a power failure: everything that was synced before, and
/// the rest according to `unsynced`. If that is AtRandom, each creation, change or removal of a
/// name has happened or not, and each write has happened in full, not at all, or in part: some
/// sectors, or all up to some byte. If a later write made the file longer, missing bytes are zeros
/// or garbage.
MemoryFiles files_after_crash(std::span<const Operation> operations, Unsynced unsynced, Rng& rng);

}  // namespace reprise::test
