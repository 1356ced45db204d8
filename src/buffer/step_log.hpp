#pragma once

#include <reprise/window.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::buffer {

/// One step as its writer commits it.
struct LoggedStep {
  std::size_t slot;        ///< The writer's.
  std::uint64_t episode;   ///< Id of its episode.
  std::uint64_t position;  ///< The position in the episode.
  const std::byte* now;    ///< The step's row.
  const std::byte* next;   ///< The row with the observation after it.
  const std::byte* state;  ///< Recurrent states; null where they are not kept.
  End end;
  std::span<const float> priorities;  ///< None, or one for each item decided.
  std::size_t items;                  ///< Items that the commit decides.
};

/// Sees the steps that the writers of one buffer commit. Any thread; calls of one slot come one
/// after the other.
class StepLog {
 public:
  StepLog() = default;
  virtual ~StepLog() = default;
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  /// The step has its place and is about to be taken. If it throws, the step is not taken.
  virtual void commit(const LoggedStep& step) = 0;
  /// The episode under way ended at its last commit, as truncated.
  virtual void cut(std::size_t slot) noexcept = 0;
};

}  // namespace reprise::buffer
