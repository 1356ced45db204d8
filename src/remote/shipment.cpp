#include "remote/shipment.hpp"

#include "base/normal.hpp"

#include <algorithm>
#include <limits>

namespace reprise::remote {
namespace {

/// No step of a segment may have a higher position, because an item's header could not hold it.
constexpr std::uint64_t kMaxPosition = storage::ItemHeader::kMaxPosition;

/// Checks that the priorities are as many as the steps bring, finite and at least 0. Selectors need
/// not be able to weigh them: an exponent may have been set since the steps were packed, and
/// weights are clamped when the items are ingested.
void check_priorities(const BlobReader& reader, const SegmentView& segment) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < segment.head.steps; ++i) {
    std::uint32_t count = 0;
    std::memcpy(&count, segment.counts.data() + i * sizeof(count), sizeof(count));
    sum += count;
  }
  reader.require(sum == segment.head.priorities, "a segment has ", segment.head.priorities,
                 " priorities for ", sum, " items");
  for (std::size_t i = 0; i < segment.head.priorities; ++i) {
    float priority = 0.0F;
    std::memcpy(&priority, segment.priorities.data() + i * sizeof(priority), sizeof(priority));
    reader.require(base::finite_and_not_negative(priority), "priority ", priority,
                   "; allowed: finite, at least 0");
  }
}

}  // namespace

Shipment parse_shipment(Bytes blob, const buffer::BufferCore& core, std::uint64_t fingerprint) {
  Shipment shipment{open(blob, BlobKind::Shipment, fingerprint), {}};
  const StepBytes bytes(core.format());
  BlobReader reader(blob, "shipment");
  const auto count = reader.value<std::uint64_t>();
  std::uint64_t all_steps = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    SegmentView segment{reader.value<Segment>(), {}, {}, {}, {}};
    const Segment& head = segment.head;
    reader.require(head.stream < core.options().max_writers, "environment ", head.stream,
                   "; allowed: below max_writers = ", core.options().max_writers);
    reader.require(head.end <= Segment::kCut, "end ", head.end, "; allowed: 0 to 3");
    reader.require(head.position <= kMaxPosition - head.steps, "position ", head.position);
    reader.require(head.steps != 0 || (head.end == Segment::kCut && head.priorities == 0),
                   "a segment without steps that does not end an episode");
    if (head.steps != 0) {
      segment.rows = reader.bytes(1, bytes.observations);
      // The first observations and the steps are one block.
      const Bytes steps = reader.bytes(head.steps, bytes.step());
      segment.rows = {segment.rows.data(), segment.rows.size() + steps.size()};
      segment.states = reader.bytes(bytes.kept(head.position, head.steps), bytes.states);
      if (head.priorities != 0) {
        segment.counts = reader.bytes(head.steps, sizeof(std::uint32_t));
        segment.priorities = reader.bytes(head.priorities, sizeof(float));
        check_priorities(reader, segment);
      }
    }
    shipment.segments.push_back(segment);
    all_steps += head.steps;
  }
  reader.require(all_steps == shipment.header.steps, all_steps, " steps; the head says ",
                 shipment.header.steps);
  reader.finish();
  return shipment;
}

}  // namespace reprise::remote
