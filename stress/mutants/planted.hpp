#pragma once

#include <cstdlib>
#include <string_view>

/// Whether the environment variable plants the fault of this name. `run` includes this header in
/// every C++ file that it patches.
inline bool planted(std::string_view name) noexcept {
  static const char* const fault = std::getenv("REPRISE_PLANTED");
  return fault != nullptr && name == fault;
}
