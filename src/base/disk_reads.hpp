#pragma once

#include <cstdint>

namespace reprise::base {

/// How much the system has read from the disk for this thread, page faults and read-ahead included;
/// 0 if the system does not say. Only differences have a meaning. A system call.
[[nodiscard]] std::uint64_t disk_reads() noexcept;

}  // namespace reprise::base
