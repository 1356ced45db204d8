#pragma once

#include "../record/memory_file_system.hpp"
#include "record/bytes.hpp"
#include "testing/library.hpp"

namespace reprise::test {

/// A checkpoint directory as a byte string, which a fuzzer can change. Each file has a byte for its
/// name (0 to 9: the manifest of that number plus 1; above: data file kind % 4 of checkpoint kind /
/// 4 % 4), its length as u32, and its bytes. Any byte string is valid: a length beyond the end is
/// cut, and of two files of one name the later one counts.
MemoryFiles unpack(std::span<const std::byte> bytes);

/// Calls each(name, contents) for every file in turn, even if names repeat.
void for_each_packed(record::Bytes bytes,
                     const std::function<void(std::string, record::Bytes)>& each);

/// Packs those of the files whose names `unpack` can give.
std::vector<std::byte> pack(const MemoryFiles& files);

}  // namespace reprise::test
