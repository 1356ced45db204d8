#include "remote/packed_steps.hpp"

#include "api/access.hpp"
#include "base/text.hpp"
#include "remote/random_id.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <ranges>
#include <stdexcept>
#include <utility>

namespace reprise::remote {
namespace {

/// Reserves room for more elements, so that adding them does not throw.
template <class T>
void make_room(std::vector<T>& values, std::size_t more) {
  if (values.capacity() - values.size() < more) {
    values.reserve(std::max(2 * values.capacity(), values.size() + more));
  }
}

void add(std::vector<std::byte>& to, const std::byte* from, std::size_t bytes) {
  to.insert(to.end(), from, from + bytes);
}

}  // namespace

std::size_t PackedSteps::Parts::bytes() const noexcept {
  return sizeof(Segment) + rows.size() + states.size() +
         (any_priority ? counts.size() * sizeof(std::uint32_t) + priorities.size() * sizeof(float)
                       : 0);
}

void PackedSteps::Parts::write(BlobWriter& to) const noexcept {
  Segment written = head;
  written.priorities = any_priority ? static_cast<std::uint32_t>(priorities.size()) : 0;
  to.value(written);
  to.bytes(rows);
  to.bytes(states);
  if (any_priority) {
    to.bytes(std::as_bytes(std::span(counts)));
    to.bytes(std::as_bytes(std::span(priorities)));
  }
}

PackedSteps::PackedSteps(const buffer::BufferCore& core, std::uint64_t writer_id,
                         const PackerLanes& lanes)
    : sizes_(core),
      headers_end_(core.layout().headers_end()),
      observations_end_(core.layout().observations_end()),
      fingerprint_(fingerprint(core.schema(), core.options().window)),
      writer_id_(writer_id),
      longest_run_(lanes.longest_run),
      streams_(core.options().max_writers),
      lanes_(lanes.count),
      next_lane_(lanes.first) {}

/// Whether a step at this position begins another run: a new episode, or one that has had too many
/// steps in its lane. An episode moves only at a step that keeps its states.
bool PackedSteps::is_over(const Stream& stream, std::uint64_t position) const noexcept {
  return !stream.in_episode || (stream.run >= longest_run_ && position % sizes_.every == 0);
}

/// The lane with the least load; among equal ones the next from `first` on.
std::size_t PackedSteps::emptiest(std::size_t first) const noexcept {
  std::size_t best = first;
  for (std::size_t i = 1; i < lanes_.size(); ++i) {
    const std::size_t lane = (first + i) % lanes_.size();
    best = lanes_[lane].load < lanes_[best].load ? lane : best;
  }
  return best;
}

void PackedSteps::begin_run(Stream& stream, std::size_t lane) noexcept {
  stream.lane = lane;
  stream.run = 0;
  stream.expected = last_run_;
  lanes_[lane].load += stream.expected;
}

void PackedSteps::end_run(Stream& stream) noexcept {
  lanes_[stream.lane].load -= stream.expected - std::min(stream.expected, stream.run);
  last_run_ = stream.run;
}

void PackedSteps::commit(const buffer::LoggedStep& step) {
  const base::MutexLock lock(mutex_);
  Stream& stream = streams_[step.slot];
  const bool new_run = is_over(stream, step.position);
  const std::size_t lane = !new_run            ? stream.lane
                           : stream.in_episode ? emptiest(stream.lane)
                                               : emptiest(next_lane_);
  const bool leaves = stream.in_episode && lane != stream.lane;
  make_room(stream.segments, 3);  // Also for two calls of `cut`, which must not throw.
  const auto make_room_in = [&](Parts& parts, std::size_t row_bytes) {
    make_room(parts.rows, row_bytes);
    make_room(parts.states, sizes_.states);
    make_room(parts.counts, 1);
    make_room(parts.priorities, step.items);
  };
  const bool begins =
      leaves || !stream.goes_on ||
      stream.segments.back().head.steps == std::numeric_limits<std::uint32_t>::max();
  if (begins) {
    begun_ = Parts();
    begun_.lane = lane;
    begun_.head = {.stream = static_cast<std::uint32_t>(step.slot),
                   .episode = step.episode,
                   .position = step.position};
    make_room_in(begun_, sizes_.observations + sizes_.step());
    add(begun_.rows, step.now + headers_end_, sizes_.observations);
  } else {
    make_room_in(stream.segments.back(), sizes_.step());
  }
  // Nothing throws from here on.
  if (new_run) {
    if (stream.in_episode) {
      end_run(stream);
    } else {
      next_lane_ = (lane + 1) % lanes_.size();
    }
    if (leaves) {
      cut(stream, step.slot);
    }
    begin_run(stream, lane);
  }
  if (begins) {
    stream.segments.push_back(std::move(begun_));
  }
  Parts& parts = stream.segments.back();
  add(parts.rows, step.now + observations_end_, sizes_.columns);
  add(parts.rows, step.next + headers_end_, sizes_.observations);
  if (step.state != nullptr) {
    add(parts.states, step.state, sizes_.states);
  }
  parts.counts.push_back(static_cast<std::uint32_t>(step.items));
  for (std::size_t i = 0; i < step.items; ++i) {
    parts.priorities.push_back(i < step.priorities.size() ? step.priorities[i] : kInitialPriority);
  }
  parts.any_priority = parts.any_priority || !step.priorities.empty();
  ++parts.head.steps;
  parts.head.end = static_cast<std::uint32_t>(step.end);
  stream.goes_on = stream.in_episode = step.end == End::Continue;
  stream.episode = step.episode;
  stream.position = step.position + 1;
  ++stream.run;
  lanes_[lane].load += stream.run > stream.expected ? 1U : 0U;
  ++lanes_[lane].steps;
  bytes_ += sizes_.step();
  if (!stream.in_episode) {
    end_run(stream);
  }
}

void PackedSteps::cut(std::size_t slot) noexcept {
  const base::MutexLock lock(mutex_);
  Stream& stream = streams_[slot];
  if (!stream.in_episode) {
    return;  // No step of the episode was committed.
  }
  cut(stream, slot);
  end_run(stream);
  stream.goes_on = stream.in_episode = false;
}

/// Ends the stream's open episode in its lane.
void PackedSteps::cut(Stream& stream, std::size_t slot) noexcept {
  if (!stream.goes_on) {  // All steps of the last segment were taken.
    Parts parts;
    parts.lane = stream.lane;
    parts.head = {.stream = static_cast<std::uint32_t>(slot),
                  .episode = stream.episode,
                  .position = stream.position};
    stream.segments.push_back(std::move(parts));
  }
  stream.segments.back().head.end = Segment::kCut;
}

Blob PackedSteps::take(std::size_t lane) {
  check(lane);
  const base::MutexLock lock(mutex_);
  const auto is_taken = [=](const Parts& parts) { return parts.lane == lane; };
  std::size_t bytes = sizeof(BlobHeader) + sizeof(std::uint64_t);
  std::uint64_t count = 0;
  for (const Stream& stream : streams_) {
    for (const Parts& parts : stream.segments | std::views::filter(is_taken)) {
      bytes += parts.bytes();
      ++count;
    }
  }
  if (count == 0) {
    return {};
  }
  Blob blob(bytes);
  BlobWriter writer(blob);
  writer.value(count);
  for (Stream& stream : streams_) {
    for (const Parts& parts : stream.segments | std::views::filter(is_taken)) {
      parts.write(writer);
    }
    std::erase_if(stream.segments, is_taken);
    stream.goes_on = stream.goes_on && stream.lane != lane;
  }
  const std::uint64_t steps = std::exchange(lanes_[lane].steps, 0);
  bytes_ -= steps * sizes_.step();
  seal(blob, {.kind = BlobKind::Shipment,
              .fingerprint = fingerprint_,
              .origin = writer_id_ + lane,
              .number = lanes_[lane].sequence++,
              .steps = steps});
  return blob;
}

void PackedSteps::check(std::size_t lane) const {
  const base::MutexLock lock(mutex_);
  base::require(lane < lanes_.size(), base::Call{"StepPacker"}, "lane ", lane, "; allowed: 0 to ",
                lanes_.size() - 1);
}

std::size_t PackedSteps::steps() const {
  const base::MutexLock lock(mutex_);
  return std::accumulate(lanes_.begin(), lanes_.end(), std::size_t{0},
                         [](std::size_t sum, const Lane& lane) { return sum + lane.steps; });
}

std::size_t PackedSteps::most_steps() const {
  const base::MutexLock lock(mutex_);
  return std::ranges::max(lanes_, {}, &Lane::steps).steps;
}

std::size_t PackedSteps::steps_in(std::size_t lane) const {
  check(lane);
  const base::MutexLock lock(mutex_);
  return lanes_[lane].steps;
}

bool PackedSteps::empty(std::size_t lane) const {
  check(lane);
  const base::MutexLock lock(mutex_);
  return std::ranges::none_of(streams_, [=](const Stream& stream) {
    return std::ranges::find(stream.segments, lane, &Parts::lane) != stream.segments.end();
  });
}

std::size_t PackedSteps::bytes() const {
  const base::MutexLock lock(mutex_);
  return bytes_;
}

std::uint64_t PackedSteps::sequence(std::size_t lane) const {
  check(lane);
  const base::MutexLock lock(mutex_);
  return lanes_[lane].sequence;
}

}  // namespace reprise::remote

namespace reprise {

StepPacker::StepPacker(ReplayBuffer& buffer, std::optional<std::uint64_t> writer_id,
                       const PackerLanes& lanes) {
  buffer::BufferCore& core = *detail::Access::core(buffer);
  core.life().check();
  base::require(lanes.count != 0, base::Call{"StepPacker"},
                "PackerLanes::count is 0; allowed: at least 1");
  base::require(lanes.first < lanes.count, base::Call{"StepPacker"}, "PackerLanes::first is ",
                lanes.first, "; allowed: 0 to ", lanes.count - 1);
  base::require(lanes.longest_run != 0, base::Call{"StepPacker"},
                "PackerLanes::longest_run is 0; allowed: at least 1");
  if (core.slots().alive() != 0 || core.step_log) {
    base::refuse<std::logic_error>(base::Call{"StepPacker"}, "the buffer has ",
                                   core.step_log ? "a packer" : "writers",
                                   "; make it before the writers, and once");
  }
  steps_ = std::make_shared<remote::PackedSteps>(core, writer_id ? *writer_id : remote::random_id(),
                                                 lanes);
  core.step_log = steps_;
}

Blob StepPacker::take(std::size_t lane) {
  return steps_->take(lane);
}
std::size_t StepPacker::steps_of(std::span<const std::byte> shipment) {
  return static_cast<std::size_t>(remote::open(shipment, remote::BlobKind::Shipment).steps);
}
std::size_t StepPacker::steps() const {
  return steps_->steps();
}
std::size_t StepPacker::most_steps() const {
  return steps_->most_steps();
}
std::size_t StepPacker::steps_in(std::size_t lane) const {
  return steps_->steps_in(lane);
}
bool StepPacker::empty(std::size_t lane) const {
  return steps_->empty(lane);
}
std::size_t StepPacker::bytes() const {
  return steps_->bytes();
}
std::uint64_t StepPacker::writer_id() const noexcept {
  return steps_->writer_id();
}
std::uint64_t StepPacker::sequence(std::size_t lane) const {
  return steps_->sequence(lane);
}

}  // namespace reprise
