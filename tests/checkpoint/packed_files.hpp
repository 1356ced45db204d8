#pragma once

#include "../record/memory_file_system.hpp"
#include "record/bytes.hpp"
#include "testing/library.hpp"

namespace reprise::test {

/// The files of a checkpoint directory that is packed in a byte string, which a fuzzer can change.
/// Each file is a byte `kind` for its name, its length as u32, and its bytes. Kinds 0 to 9 are the
/// manifests 1 to 10; any other kind is data file kind % 4 of checkpoint kind / 4 % 4. Any byte
/// string is valid: a length beyond the end is cut, and of files of one name the last counts.
MemoryFiles unpack(std::span<const std::byte> bytes);

/// Calls each(name, contents) for every file in turn, even if names repeat.
void for_each_packed(record::Bytes bytes,
                     const std::function<void(std::string, record::Bytes)>& each);

/// Packs the files whose names `unpack` knows, and leaves out the others.
std::vector<std::byte> pack(const MemoryFiles& files);

}  // namespace reprise::test
