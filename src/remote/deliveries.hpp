#pragma once

#include <reprise/remote.hpp>

#include "base/event.hpp"
#include "base/mutex.hpp"
#include "buffer/buffer_core.hpp"
#include "remote/blob.hpp"
#include "remote/remote_writers.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

namespace reprise::remote {

/// The answer to a call that is refused: `Closed` if the buffer is closed, otherwise `Refused`.
[[nodiscard]] Blob refusal(buffer::BufferCore& core, std::uint64_t incarnation);

/// Appends shipments of many writers with one call of their process. Remembers which process has
/// which writer, because a process that is killed does not close its writers. Any thread.
class Deliveries {
 public:
  /// `core` and `writers` must outlive this object.
  Deliveries(buffer::BufferCore& core, RemoteWriters& writers, std::uint64_t incarnation,
             const ShardPatience& patience);

  [[nodiscard]] Blob append_all(Bytes call, std::chrono::nanoseconds timeout, std::size_t most,
                                WaitHook* hook) REPRISE_EXCLUDES(mutex_);
  void note_alive(std::uint64_t process) REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] bool is_silent(std::uint64_t process) const REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] DeliveryCounts counts() const REPRISE_EXCLUDES(mutex_);

 private:
  class Call;
  /// A process that has called.
  struct Process {
    base::Clock::time_point heard;  ///< When its last call ended, or it was noted alive.
    std::size_t calls = 0;          ///< How many of its calls are under way.
  };
  [[nodiscard]] static bool is_silent(const Process& process, base::Clock::time_point now,
                                      std::chrono::nanoseconds silent) noexcept;
  [[nodiscard]] ShipmentOutcome append_or_close(const ShipmentOf& one, std::uint64_t process,
                                                std::chrono::nanoseconds timeout, WaitHook* hook)
      REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] Blob answer_of(std::span<const ShipmentOutcome> outcomes) const;
  [[nodiscard]] std::optional<AppendResult> append(const Shipment& shipment,
                                                   std::chrono::nanoseconds timeout, WaitHook* hook)
      REPRISE_EXCLUDES(mutex_);
  std::size_t close_silent(std::chrono::nanoseconds silent) REPRISE_EXCLUDES(mutex_);

  buffer::BufferCore& core_;
  RemoteWriters& writers_;
  const std::uint64_t incarnation_;
  const ShardPatience patience_;
  mutable base::Mutex mutex_;  ///< Not held while a call appends, closes a writer or waits.
  /// The process of each writer; all these processes are in `last_heard_`.
  std::map<std::uint64_t, std::uint64_t> processes_ REPRISE_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Process> last_heard_ REPRISE_GUARDED_BY(mutex_);
  DeliveryCounts counts_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::remote
