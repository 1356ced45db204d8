#pragma once

#include <reprise/checkpoint.hpp>

#include "buffer/buffer_core.hpp"
#include "record/file_system.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace reprise::save {

/// Implements `ReplayBuffer::save`. One save runs at a time; a second one waits. `samplers` has the
/// random states of the samplers in the options. Throws `CheckpointError` if the save fails or is
/// cancelled, and `std::bad_alloc` without memory.
SaveResult save(buffer::BufferCore& core, record::FileSystem& files, const std::string& directory,
                const SaveOptions& options, std::span<const base::Random::State> samplers);

/// The result of a load.
struct Loaded {
  std::shared_ptr<buffer::BufferCore> core;
  RestoreResult result;
};

/// Makes a buffer from the newest checkpoint that is whole. With `like`, the checkpoint must have
/// the schema and options of `like`, and the new buffer gets the options of `like`.
Loaded load(record::FileSystem& files, const std::string& directory, const LoadOptions& options,
            const buffer::BufferCore* like);

/// Each state begins with the version of its format.
inline constexpr std::uint32_t kStateVersion = 1;
/// The options' state: from this version on enumerators are stored as their present numbers.
inline constexpr std::uint32_t kStateVersionWords = 2;
/// The newest version of the options' state, which `encode` writes.
inline constexpr std::uint32_t kOptionsVersion = kStateVersionWords;
/// The buffer's state: the version if the limiter has another ratio than the options.
inline constexpr std::uint32_t kStateVersionRatio = 2;
/// A shard's state: from the first version on it may have removed items, and from the second one on
/// it has the turns of its chunks.
inline constexpr std::uint32_t kStateVersionRemoved = 2;
inline constexpr std::uint32_t kStateVersionTurns = 3;

/// Names of the states that `save` writes and `load` reads. The number of the shard follows
/// kShardState.
inline constexpr const char* kSchemaState = "schema";
inline constexpr const char* kOptionsState = "options";
inline constexpr const char* kBufferState = "buffer";
inline constexpr const char* kShardState = "shard-";

}  // namespace reprise::save
