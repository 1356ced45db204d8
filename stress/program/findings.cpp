#include "program/findings.hpp"

#include <cstdio>
#include <cstdlib>

namespace stress {

const char* name_of(Finding finding) noexcept {
  constexpr const char* kNames[kFindings] = {
      "torn row",         "wrong window",      "wrong priority",
      "zero-weight draw", "wrong order",       "item drawn too often",
      "item too old",     "item never drawn",  "passed over in a wait",
      "broken limit",     "misled remover",    "accounting error",
      "missed refusal",   "broken checkpoint", "unexpected error"};
  return kNames[static_cast<std::size_t>(finding)];
}

void Findings::add(Finding finding, const std::string& words) {
  counts_[static_cast<std::size_t>(finding)].fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (examples_.size() < kExamples) {
    examples_.push_back(std::string(name_of(finding)) + ": " + words);
  }
}

std::uint64_t Findings::violations() const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kFindings; ++i) {
    sum += count(static_cast<Finding>(i));
  }
  return sum;
}

std::vector<std::string> Findings::examples() const {
  const std::lock_guard lock(mutex_);
  return examples_;
}

void abort_hung(const Findings& findings, const std::string& what) {
  for (const std::string& example : findings.examples()) {
    std::fprintf(stderr, "violation: %s\n", example.c_str());
  }
  std::fprintf(stderr, "violation: hang: %s\n", what.c_str());
  std::fflush(nullptr);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace stress
