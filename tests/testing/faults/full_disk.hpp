#pragma once

#include "testing/test.hpp"

/// full_disk.cpp replaces posix_fallocate in each program that links it.
namespace reprise::test {

/// From now on all threads together can reserve `bytes` bytes, then the disk is full.
void set_free_disk_bytes(std::size_t bytes);
/// Ends the pretence: the disk has the room that it really has.
void restore_disk_space();

}  // namespace reprise::test
