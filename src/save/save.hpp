#pragma once

#include <reprise/checkpoint.hpp>

#include "buffer/buffer_core.hpp"
#include "record/file_system.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace reprise::save {

/// One save at a time; who comes second waits. `samplers`: those of the options. Throws
/// `CheckpointError`, `std::bad_alloc`.
SaveResult save(buffer::BufferCore& core, record::FileSystem& files, const std::string& directory,
                const SaveOptions& options, std::span<const base::Random::State> samplers);

/// A buffer as the checkpoint has it. With `like`, one that also has its schema and options.
std::shared_ptr<buffer::BufferCore> load(record::FileSystem& files, const std::string& directory,
                                         const LoadOptions& options,
                                         const buffer::BufferCore* like);

/// Each state begins with the version of its meaning.
inline constexpr std::uint32_t kStateVersion = 1;

/// Names of the states that `save` writes and `load` reads; those of shards end with their number.
inline constexpr const char* kSchemaState = "schema";
inline constexpr const char* kOptionsState = "options";
inline constexpr const char* kBufferState = "buffer";
inline constexpr const char* kShardState = "shard-";

}  // namespace reprise::save
