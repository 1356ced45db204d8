#pragma once

#include "findings.hpp"

#include <string>

namespace stress {

/// Says what does not come to an end and ends the program: threads that hang cannot be joined.
[[noreturn]] void give_up(const Findings& findings, const std::string& what);

}  // namespace stress
