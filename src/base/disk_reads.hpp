#pragma once

#include <cstdint>

namespace reprise::base {

/// How much this thread has had the disk read for it, its own page faults and read-ahead included;
/// 0 where the system does not say. Only differences mean something. A system call.
[[nodiscard]] std::uint64_t disk_reads() noexcept;

}  // namespace reprise::base
