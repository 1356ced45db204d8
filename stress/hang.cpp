#include "hang.hpp"

#include "findings.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace stress {

void give_up(const Findings& findings, const std::string& what) {
  for (const std::string& example : findings.examples()) {
    std::fprintf(stderr, "violation: %s\n", example.c_str());
  }
  std::fprintf(stderr, "violation: hang: %s\n", what.c_str());
  std::fflush(nullptr);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace stress
