#pragma once

#include "drawn.hpp"
#include "findings.hpp"
#include "strategies.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace stress {

/// Judges what holds of a batch as a whole: no item twice where each comes once, and the order of
/// items that are drawn in one. One thread at a time.
///
/// Items of one writer are decided in the order of its steps, so that a batch by age has them in
/// that order, whatever other writers do meanwhile. Where each item is drawn once, that goes on
/// from batch to batch: an item that was missing comes behind what followed it. A batch by priority
/// is of one moment, in which the items whose priorities the learner alone sets had those that it
/// knows.
class OrderCheck {
 public:
  OrderCheck(Drawing drawing, bool each_once, Findings& findings)
      : drawing_(drawing), goes_on_(each_once && drawing == Drawing::Oldest), findings_(findings) {}

  /// `levels`: of each item, its priority's or none where it is not known for sure.
  void check(const Drawn& drawn, std::span<const Judged> judged,
             std::span<const std::optional<std::uint32_t>> levels);

 private:
  void check_twice(const Drawn& drawn);
  void check_certain(const Drawn& drawn);
  void check_by_age(const Drawn& drawn, std::span<const Judged> judged);
  void check_by_priority(const Drawn& drawn, std::span<const std::optional<std::uint32_t>> levels);

  const Drawing drawing_;
  const bool goes_on_;  ///< What holds within a batch holds between batches.
  Findings& findings_;
  std::vector<std::uint64_t> sorted_;
  std::unordered_map<std::uint32_t, std::uint64_t> last_;  ///< Of each writer, step drawn last.
};

}  // namespace stress
