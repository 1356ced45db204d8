#pragma once

#include "testing/library.hpp"

namespace stress {

enum class Finding : std::uint8_t {
  TornRow,           ///< An observation whose hash is wrong.
  WrongWindow,       ///< A window whose rows, stack, return, discount or names do not match.
  WrongPriority,     ///< A probability that does not follow from the item's last priority.
  ZeroWeightDraw,    ///< A draw of an item whose priority is 0.
  WrongOrder,        ///< Items in another order than the selector's, or twice in a batch.
  DrawnTooOften,     ///< An item drawn above its limit, or after its removal.
  TooOld,            ///< An item that should have left before others.
  NeverDrawn,        ///< An item that left, or missed a whole pass, before it was drawn.
  PassedOver,        ///< A waiting call; the rate limiter let too many later calls go first.
  BrokenLimit,       ///< Counts beyond the bound of the rate limiter.
  MisledRemover,     ///< A call of the remover that names a wrong chunk, or comes at a wrong time.
  AccountingError,   ///< Steps, items or updates that do not add up.
  MissedRefusal,     ///< A bad key or priority that an update did not refuse.
  BrokenCheckpoint,  ///< A checkpoint that cannot be loaded, or whose contents are not the
                     ///< buffer's.
  UnexpectedError,   ///< An exception or a hang.
};
inline constexpr std::size_t kFindings = 15;

[[nodiscard]] const char* name_of(Finding finding) noexcept;

class Findings;

/// Ends a program that hangs, after printing the findings.
[[noreturn]] void abort_hung(const Findings& findings, const std::string& what);

/// Counts the findings and keeps the first few in words. Any thread.
class Findings {
 public:
  void add(Finding finding, const std::string& words);

  [[nodiscard]] std::uint64_t count(Finding finding) const noexcept {
    return counts_[static_cast<std::size_t>(finding)].load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t violations() const noexcept;
  [[nodiscard]] std::vector<std::string> examples() const;

 private:
  static constexpr std::size_t kExamples = 12;

  /// Relaxed: read for display, or after the threads that count have been joined.
  std::array<std::atomic<std::uint64_t>, kFindings> counts_{};
  mutable std::mutex mutex_;
  std::vector<std::string> examples_;  // Guarded by mutex_.
};

}  // namespace stress
