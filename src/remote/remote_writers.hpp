#pragma once

#include <reprise/remote.hpp>

#include "base/event.hpp"
#include "base/mutex.hpp"
#include "buffer/buffer_core.hpp"
#include "remote/shipment.hpp"
#include "writer/writer_core.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reprise::remote {

/// The numbers of the shipments that were appended, as ascending intervals: a single interval
/// unless shipments were lost.
class TakenNumbers {
 public:
  enum class State : std::uint8_t {
    New,
    Taken,
    Late,  ///< This shipment was not appended, but a later one was.
  };
  [[nodiscard]] State state_of(std::uint64_t number) const noexcept;
  /// Adds a number that is new. If it throws, nothing has changed.
  void take(std::uint64_t number);

 private:
  struct Interval {
    std::uint64_t first;
    std::uint64_t last;
  };
  std::vector<Interval> intervals_;
};

/// One environment of a remote writer: its local writer, and how much of the episode was appended.
class RemoteStream {
 public:
  explicit RemoteStream(std::unique_ptr<writer::WriterCore> writer) : writer_(std::move(writer)) {}

  /// Appends the steps of a segment from number `done` on, and counts each in `done`, which is
  /// right also after an exception or an answer other than `Committed`.
  CommitStatus append(const SegmentView& segment, const StepBytes& bytes,
                      std::chrono::nanoseconds timeout, std::size_t& done, AppendResult& result);
  /// Whether the environment is between two episodes.
  [[nodiscard]] bool idle() const noexcept { return !writer_->in_episode(); }
  std::uint64_t used = 0;  ///< `Remote::steps` when the stream was last used.

 private:
  void begin(const SegmentView& segment, const StepBytes& bytes, std::size_t& done,
             AppendResult& result);

  std::unique_ptr<writer::WriterCore> writer_;
  /// The episode of the last segment, by the number that the remote writer gave it.
  std::uint64_t episode_ = ~std::uint64_t{0};
  std::uint64_t position_ = 0;  ///< The position of the next step in the remote writer's episode.
};

/// The remote writers that append to one buffer. Any thread; shipments of one writer exclude each
/// other.
class RemoteWriters {
 public:
  /// At least this many closed writers are remembered, and at most twice as many.
  static constexpr std::size_t kRemembered = 4096;

  explicit RemoteWriters(std::shared_ptr<buffer::BufferCore> core);

  AppendResult append(Bytes shipment, std::chrono::nanoseconds timeout, WaitHook* hook)
      REPRISE_EXCLUDES(mutex_);
  /// Checks all bytes of a shipment, which has to outlive the result.
  [[nodiscard]] Shipment parse(Bytes shipment) const;
  /// Like `append`, but returns nothing if there is no place for a writer that the shipment needs.
  std::optional<AppendResult> attempt(const Shipment& shipment, std::chrono::nanoseconds timeout,
                                      WaitHook* hook) REPRISE_EXCLUDES(mutex_);
  /// The error message for a shipment whose writer has no place.
  [[nodiscard]] std::string no_writer_slot() const;
  std::size_t close(std::uint64_t writer_id) REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t size() const REPRISE_EXCLUDES(mutex_);

 private:
  /// How much of a partly appended shipment is in the buffer.
  struct Part {
    std::uint64_t number = 0;
    std::uint64_t checksum = 0;
    std::size_t segments = 0;  ///< Segments appended completely.
    std::size_t steps = 0;     ///< Steps appended of the segment that comes next.
  };
  /// A remote writer. Closed ones are kept for a while, so that late repetitions are noticed.
  struct Remote {
    base::Mutex mutex;
    std::map<std::uint32_t, RemoteStream> streams REPRISE_GUARDED_BY(mutex);
    TakenNumbers taken REPRISE_GUARDED_BY(mutex);
    std::optional<Part> part REPRISE_GUARDED_BY(mutex);
    std::uint64_t steps REPRISE_GUARDED_BY(mutex) = 0;  ///< The number of steps appended so far.
    std::size_t open = 0;  ///< The size of `streams`; guarded by `mutex_`.
    /// The value that `closed_` got when this writer was closed; 0 if it is not closed, or has a
    /// stream again. Guarded by `mutex_`.
    std::uint64_t closed = 0;
  };

  [[nodiscard]] std::shared_ptr<Remote> remote(std::uint64_t writer_id) REPRISE_EXCLUDES(mutex_);
  void forget_closed() REPRISE_REQUIRES(mutex_);
  [[nodiscard]] std::vector<std::shared_ptr<Remote>> all() const REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] std::unique_ptr<writer::WriterCore> make_writer();
  [[nodiscard]] bool make_streams(Remote& remote, std::span<const SegmentView> segments)
      REPRISE_REQUIRES(remote.mutex);
  [[nodiscard]] static RemoteStream* stream_for(Remote& remote, const Segment& head)
      REPRISE_REQUIRES(remote.mutex);
  void give_back_idle() REPRISE_EXCLUDES(mutex_);
  void note_streams(Remote& remote) REPRISE_REQUIRES(remote.mutex) REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] std::optional<AppendResult> append(Remote& remote, const Shipment& shipment,
                                                   base::Clock::time_point deadline)
      REPRISE_EXCLUDES(remote.mutex);
  [[nodiscard]] std::optional<AppendResult> append_locked(Remote& remote, const Shipment& shipment,
                                                          base::Clock::time_point deadline)
      REPRISE_REQUIRES(remote.mutex);
  void append_segments(Remote& remote, const Shipment& shipment, base::Clock::time_point deadline,
                       AppendResult& result) REPRISE_REQUIRES(remote.mutex);

  const std::shared_ptr<buffer::BufferCore> core_;
  const StepBytes bytes_;
  const std::uint64_t fingerprint_;
  mutable base::Mutex mutex_;  ///< Locked after that of a `Remote`.
  std::map<std::uint64_t, std::shared_ptr<Remote>> remotes_ REPRISE_GUARDED_BY(mutex_);
  std::size_t forget_at_ REPRISE_GUARDED_BY(mutex_) = 2 * kRemembered;  ///< A size of `remotes_`.
  std::uint64_t closed_ REPRISE_GUARDED_BY(mutex_) = 0;  ///< How many writers were closed so far.
};

}  // namespace reprise::remote
