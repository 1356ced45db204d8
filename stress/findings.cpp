#include "findings.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace stress {

const char* name_of(Finding finding) noexcept {
  switch (finding) {
    case Finding::TornRow:
      return "torn row";
    case Finding::WrongWindow:
      return "wrong window";
    case Finding::WrongPriority:
      return "wrong priority";
    case Finding::ZeroWeightDraw:
      return "zero-weight draw";
    case Finding::WrongOrder:
      return "wrong order";
    case Finding::DrawnTooOften:
      return "item drawn too often";
    case Finding::TooOld:
      return "item too old";
    case Finding::NeverDrawn:
      return "item never drawn";
    case Finding::PassedOver:
      return "passed over in a wait";
    case Finding::BrokenLimit:
      return "broken limit";
    case Finding::MisledRemover:
      return "misled remover";
    case Finding::AccountingError:
      return "accounting error";
    case Finding::MissedRefusal:
      return "missed refusal";
    case Finding::BrokenCheckpoint:
      return "broken checkpoint";
    case Finding::UnexpectedError:
      return "unexpected error";
  }
  return "unknown";
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

}  // namespace stress
