#pragma once

#include <cstdlib>
#include <string_view>

/// Whether the environment plants the fault of this name. `run` includes it in what it patches.
inline bool planted(std::string_view name) noexcept {
  static const char* const fault = std::getenv("REPRISE_PLANTED");
  return fault != nullptr && name == fault;
}
