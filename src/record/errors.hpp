#pragma once

#include <reprise/checkpoint.hpp>

#include "base/text.hpp"

#include <cstdint>
#include <string>

namespace reprise::record {

/// An error for bytes that differ from those that were written.
template <class... Parts>
[[nodiscard]] CheckpointError damaged(const std::string& file, std::uint64_t offset,
                                      const Parts&... problem) {
  return {CheckpointError::Kind::Damaged, base::text(problem...), file, offset};
}

/// An error for contents that this version of reprise does not know. Their checksum matches, so a
/// newer version wrote them.
template <class... Parts>
[[nodiscard]] CheckpointError of_newer_version(const std::string& file, std::uint64_t offset,
                                               const Parts&... what) {
  return {CheckpointError::Kind::Unsupported,
          base::text(what..., ", which this version of reprise does not know"), file, offset};
}

/// An error of the file system. `doing`: the call that failed, as in "cannot write". `if_absent`:
/// the kind of the error if the system's error is ENOENT; otherwise the kind is `Io`.
[[nodiscard]] CheckpointError io_error(const std::string& file, std::uint64_t offset,
                                       const char* doing, int error_number,
                                       CheckpointError::Kind if_absent = CheckpointError::Kind::Io);

}  // namespace reprise::record
