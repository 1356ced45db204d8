#pragma once

#include "memory_file_system.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace reprise::test {

/// A checkpoint directory as one run of bytes, which a fuzzer can change: for each file a byte that
/// says which it is (0 to 9: the manifest of that number plus 1; above: data file kind % 4 of
/// checkpoint kind / 4 % 4), its length as u32, its bytes. Any bytes mean something: a length
/// beyond the end is cut.
MemoryFiles unpack(std::span<const std::byte> bytes);

/// Files of other names are left out.
std::vector<std::byte> pack(const MemoryFiles& files);

}  // namespace reprise::test
