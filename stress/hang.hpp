#pragma once

#include "findings.hpp"

#include <string>

namespace stress {

/// Prints what does not end, and ends the program, because threads that hang cannot be joined.
[[noreturn]] void give_up(const Findings& findings, const std::string& what);

}  // namespace stress
