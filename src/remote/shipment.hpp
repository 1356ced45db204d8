#pragma once

#include "buffer/buffer_core.hpp"
#include "remote/blob.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::remote {

/// Consecutive steps of one episode in a shipment. If it has steps, three arrays follow `Segment`:
/// - the observations before its first step, then columns and next observations of each step;
/// - the recurrent states of the steps that keep them;
/// - if it has priorities, how many the commit of each step brought, then all of them.
struct Segment {
  std::uint32_t stream = 0;  ///< The number of the environment at the remote writer.
  std::uint32_t steps = 0;
  std::uint64_t episode = 0;   ///< The episode's number at the remote writer.
  std::uint64_t position = 0;  ///< The position of the first step.
  std::uint32_t end = 0;       ///< How the last step ends: an `End`, or `kCut`.
  std::uint32_t priorities = 0;

  /// The episode ends at the last step, although that was committed with `End::Continue`.
  static constexpr std::uint32_t kCut = 3;
};
static_assert(sizeof(Segment) == 32);

/// The bytes that a step has in each array of a segment. Observations and columns are consecutive
/// parts of a row.
struct StepBytes {
  explicit StepBytes(const buffer::Format& format) noexcept
      : observations(format.layout.observations_end() - format.layout.headers_end()),
        columns(format.layout.stride() - format.layout.observations_end()),
        states(format.layout.state_stride()),
        every(format.window.item_every()) {}

  std::size_t observations;
  std::size_t columns;
  std::size_t states;   ///< The size of one step's states; 0 without recurrent states.
  std::uint32_t every;  ///< Steps whose position is a multiple of this number keep their states.

  [[nodiscard]] std::size_t step() const noexcept { return columns + observations; }
  /// How many positions in [0, end) keep their states.
  [[nodiscard]] std::uint64_t kept_before(std::uint64_t end) const noexcept {
    return end / every + (end % every != 0 ? 1U : 0U);
  }
  /// How many steps in [position, position + steps) keep their states; 0 without recurrent states.
  [[nodiscard]] std::uint64_t kept(std::uint64_t position, std::uint64_t steps) const noexcept {
    return states == 0 ? 0 : kept_before(position + steps) - kept_before(position);
  }
};

/// A segment, and where its arrays are in the shipment.
struct SegmentView {
  Segment head;
  Bytes rows;
  Bytes states;
  Bytes counts;
  Bytes priorities;
};

struct Shipment {
  BlobHeader header;
  std::vector<SegmentView> segments;
};

/// Parses a shipment, and checks it as far as the buffer's invariants depend on it. The remote
/// writer, whose schema has the same fingerprint, has checked the values within rows.
[[nodiscard]] Shipment parse_shipment(Bytes blob, const buffer::BufferCore& core,
                                      std::uint64_t fingerprint);

}  // namespace reprise::remote
