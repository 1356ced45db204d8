#pragma once

#include "../record/memory_file_system.hpp"
#include "testing/test.hpp"

namespace reprise::test {

/// Which of the operations that were not synced have reached the disk.
enum class Unsynced { None, All, AtRandom };

/// The files that a machine may find after a power failure: all that was synced, and of the other
/// operations those that `unsynced` says. With AtRandom, chance decides whether a name was created,
/// changed or removed, and whether a write reached the disk in full, not at all, up to some byte,
/// or in some of its sectors. Bytes that are missing before a later write are zeros or garbage.
MemoryFiles files_after_crash(std::span<const Operation> operations, Unsynced unsynced, Rng& rng);

}  // namespace reprise::test
