#pragma once

#include <cstddef>

/// Replaces posix_fallocate in the program that it is linked into.
namespace reprise::test {

/// From now on so many bytes can still be set aside, by any thread, before the disk is full.
void disk_has_room_for(std::size_t bytes);
/// As it really is.
void disk_has_room();

}  // namespace reprise::test
