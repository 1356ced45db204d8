#pragma once

#include "../record/memory_file_system.hpp"
#include "record/bytes.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace reprise::test {

/// A checkpoint directory as one run of bytes, which a fuzzer can change: for each file a byte that
/// says which it is (0 to 9: the manifest of that number plus 1; above: data file kind % 4 of
/// checkpoint kind / 4 % 4), its length as u32, its bytes. Any bytes mean something: a length
/// beyond the end is cut, and of two files of one name the later counts.
MemoryFiles unpack(std::span<const std::byte> bytes);

/// Calls each(name, contents) for the files in turn, those of one name too.
void for_each_packed(record::Bytes bytes,
                     const std::function<void(std::string, record::Bytes)>& each);

/// Files of other names are left out.
std::vector<std::byte> pack(const MemoryFiles& files);

}  // namespace reprise::test
