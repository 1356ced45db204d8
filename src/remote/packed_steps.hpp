#pragma once

#include <reprise/remote.hpp>

#include "base/mutex.hpp"
#include "buffer/step_log.hpp"
#include "remote/shipment.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::remote {

/// The steps that a `StepPacker` recorded and nobody took. Any thread.
class PackedSteps final : public buffer::StepLog {
 public:
  PackedSteps(const buffer::BufferCore& core, std::uint64_t writer_id);

  void commit(const buffer::LoggedStep& step) override REPRISE_EXCLUDES(mutex_);
  void cut(std::size_t slot) noexcept override REPRISE_EXCLUDES(mutex_);

  [[nodiscard]] Blob take() REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t steps() const REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t bytes() const REPRISE_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t writer_id() const noexcept { return writer_id_; }
  [[nodiscard]] std::uint64_t sequence() const REPRISE_EXCLUDES(mutex_);

 private:
  /// The parts of a segment, each one after the other.
  struct Parts {
    Segment head;
    std::vector<std::byte> rows;
    std::vector<std::byte> states;
    std::vector<std::uint32_t> counts;
    std::vector<float> priorities;
    bool any_priority = false;  ///< Else counts and priorities are left out.

    [[nodiscard]] std::size_t bytes() const noexcept;
    void write(BlobWriter& to) const noexcept;
  };
  struct Stream {
    std::vector<Parts> segments;  ///< The last one may go on.
    std::uint64_t episode = 0;
    std::uint64_t position = 0;  ///< After its last step.
    bool in_episode = false;
    bool goes_on = false;  ///< The last segment does.
  };

  const StepBytes sizes_;
  const std::size_t headers_end_;
  const std::size_t observations_end_;
  const std::uint64_t fingerprint_;
  const std::uint64_t writer_id_;
  mutable base::Mutex mutex_;
  std::vector<Stream> streams_ REPRISE_GUARDED_BY(mutex_);  ///< By writer slot.
  std::size_t steps_ REPRISE_GUARDED_BY(mutex_) = 0;
  std::size_t bytes_ REPRISE_GUARDED_BY(mutex_) = 0;
  std::uint64_t sequence_ REPRISE_GUARDED_BY(mutex_) = 0;
};

}  // namespace reprise::remote
