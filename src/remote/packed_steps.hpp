#pragma once

#include <reprise/remote.hpp>

#include "base/life.hpp"
#include "base/mutex.hpp"
#include "buffer/outline.hpp"
#include "remote/shipment.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::remote {

/// The steps that the writers of a `StepPacker` committed, until `take` puts them into a shipment.
/// Any thread.
class PackedSteps {
 public:
  /// Throws as `StepPacker`.
  PackedSteps(const Schema& schema, const Options& of_shards, std::uint64_t writer_id,
              const PackerLanes& lanes);

  const buffer::Outline outline;  ///< What the shards' buffers have in common.
  base::Life life;                ///< Closed with the packer.

  /// Adds a stream for the steps of one writer, whose calls come one after the other, and returns
  /// the stream's number. Throws `std::runtime_error` if `max_writers` writers are alive.
  [[nodiscard]] std::size_t add_stream() REPRISE_EXCLUDES(mutex_);
  /// Ends the stream's episode, because its writer is gone, and frees the stream for another one.
  void leave(std::size_t stream) noexcept REPRISE_EXCLUDES(mutex_);
  /// Ends the episode under way, and returns the id of the next one. All streams count with one
  /// counter, because a stream may have had another writer before.
  [[nodiscard]] std::uint64_t begin_episode(std::size_t stream) REPRISE_EXCLUDES(mutex_);
  /// One step as its writer commits it.
  struct Step {
    std::size_t stream;
    std::uint64_t episode;
    std::uint64_t position;  ///< The step's position in the episode.
    const std::byte* now;    ///< The step's row.
    const std::byte* next;   ///< The row with the observation after it.
    const std::byte* state;  ///< Recurrent states; null if no item can begin with the step.
    End end;
    std::span<const float> priorities;  ///< Empty, or one for each item that the commit decides.
  };
  /// Adds a step. If it throws, the step was not added.
  void commit(const Step& step) REPRISE_EXCLUDES(mutex_);

  [[nodiscard]] Blob take(std::size_t lane) REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t steps() const REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t most_steps() const REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t steps_in(std::size_t lane) const REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] bool empty(std::size_t lane) const REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t bytes() const REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t writer_id() const noexcept { return writer_id_; }
  [[nodiscard]] std::uint64_t sequence(std::size_t lane) const REPRISE_EXCLUDES(mutex_);

 private:
  /// A segment that is not in a shipment yet. There its arrays follow `head` one after the other.
  struct Parts {
    std::size_t lane = 0;
    Segment head;
    std::vector<std::byte> rows;
    std::vector<std::byte> states;
    std::vector<std::uint32_t> counts;  ///< Priorities of each step; not shipped if all are 0.
    std::vector<float> priorities;

    [[nodiscard]] std::size_t bytes() const noexcept;
    void write(BlobWriter& to) const noexcept;
  };
  struct Stream {
    bool has_writer = false;
    std::vector<Parts> segments;  ///< The last one may still grow.
    std::uint64_t episode = 0;
    std::uint64_t position = 0;  ///< The position of the next step.
    bool in_episode = false;
    bool extendable = false;     ///< Whether the last segment may still grow.
    std::size_t lane = 0;        ///< The lane of the last segment.
    std::uint64_t run = 0;       ///< Steps of the episode since it came to this lane.
    std::uint64_t expected = 0;  ///< The length that was expected of the run when it began.
  };
  struct Lane {
    std::size_t steps = 0;  ///< The number of steps that `take` has not returned yet.
    std::uint64_t sequence = 0;
    /// The steps so far, and those that are expected of open episodes. Without the expected ones,
    /// environments whose episodes end together would all go on in one lane.
    std::uint64_t load = 0;
  };

  void check(std::size_t lane) const;
  void make_room_in(Parts& parts, const Step& step, std::size_t row_bytes) const;
  void begin_segment(const Step& step, std::size_t lane) REPRISE_REQUIRES(mutex_);
  void add_step(Parts& parts, const Step& step) const noexcept;
  [[nodiscard]] bool begins_run(const Stream& stream, std::uint64_t position) const noexcept;
  [[nodiscard]] std::size_t least_loaded(std::size_t first) const noexcept REPRISE_REQUIRES(mutex_);
  void begin_run(Stream& stream, std::size_t lane) noexcept REPRISE_REQUIRES(mutex_);
  void end_run(Stream& stream) noexcept REPRISE_REQUIRES(mutex_);
  void end_episode(std::size_t number) noexcept REPRISE_REQUIRES(mutex_);
  static void cut(Stream& stream, std::size_t number) noexcept;

  const StepBytes sizes_;
  const std::size_t headers_end_;
  const std::size_t observations_end_;
  const std::uint64_t fingerprint_;
  const std::uint64_t writer_id_;
  const std::uint64_t longest_run_;
  mutable base::Mutex mutex_;
  std::vector<Stream> streams_ REPRISE_GUARDED_BY(mutex_);
  std::vector<Lane> lanes_ REPRISE_GUARDED_BY(mutex_);
  std::uint64_t episodes_ REPRISE_GUARDED_BY(mutex_) = 0;  ///< Episodes begun so far.
  std::size_t next_lane_ REPRISE_GUARDED_BY(mutex_);       ///< Preferred among lanes of equal load.
  std::uint64_t last_run_ REPRISE_GUARDED_BY(mutex_) = 1;  ///< Expected of the next run.
  std::size_t bytes_ REPRISE_GUARDED_BY(mutex_) = 0;
  /// The segment that a commit begins, before it is appended to its stream. It is a member, because
  /// a local would be constructed in each commit, and most commits begin no segment.
  Parts begun_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::remote
