#include "remote/packed_steps.hpp"

#include "base/text.hpp"
#include "remote/random_id.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace reprise::remote {
namespace {

/// Makes room for more elements, so that adding them does not throw.
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

PackedSteps::PackedSteps(const buffer::BufferCore& core, std::uint64_t writer_id)
    : sizes_(core),
      headers_end_(core.layout().headers_end()),
      observations_end_(core.layout().observations_end()),
      fingerprint_(fingerprint(core.schema(), core.options().window)),
      writer_id_(writer_id),
      streams_(core.options().max_writers) {}

void PackedSteps::commit(const buffer::LoggedStep& step) {
  const base::MutexLock lock(mutex_);
  Stream& stream = streams_[step.slot];
  make_room(stream.segments, 2);  // One for `cut`, which must not throw.
  const auto make_room_in = [&](Parts& parts, std::size_t row_bytes) {
    make_room(parts.rows, row_bytes);
    make_room(parts.states, sizes_.states);
    make_room(parts.counts, 1);
    make_room(parts.priorities, step.items);
  };
  if (!stream.goes_on ||
      stream.segments.back().head.steps == std::numeric_limits<std::uint32_t>::max()) {
    Parts parts;
    parts.head = {.stream = static_cast<std::uint32_t>(step.slot),
                  .episode = step.episode,
                  .position = step.position};
    make_room_in(parts, sizes_.observations + sizes_.step());
    add(parts.rows, step.now + headers_end_, sizes_.observations);
    stream.segments.push_back(std::move(parts));
    stream.goes_on = true;
  }
  Parts& parts = stream.segments.back();
  make_room_in(parts, sizes_.step());
  // Nothing throws from here on.
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
  ++steps_;
  bytes_ += sizes_.step();
}

void PackedSteps::cut(std::size_t slot) noexcept {
  const base::MutexLock lock(mutex_);
  Stream& stream = streams_[slot];
  if (!stream.in_episode) {
    return;  // No step of the episode was committed.
  }
  if (!stream.goes_on) {  // All its steps were taken.
    Parts parts;
    parts.head = {.stream = static_cast<std::uint32_t>(slot),
                  .episode = stream.episode,
                  .position = stream.position};
    stream.segments.push_back(std::move(parts));
  }
  stream.segments.back().head.end = Segment::kCut;
  stream.goes_on = stream.in_episode = false;
}

Blob PackedSteps::take() {
  const base::MutexLock lock(mutex_);
  std::size_t bytes = sizeof(BlobHeader) + sizeof(std::uint64_t);
  std::uint64_t count = 0;
  for (const Stream& stream : streams_) {
    for (const Parts& parts : stream.segments) {
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
    for (const Parts& parts : stream.segments) {
      parts.write(writer);
    }
    stream.segments.clear();
    stream.goes_on = false;
  }
  const std::uint64_t steps = std::exchange(steps_, 0);
  bytes_ = 0;
  seal(blob, {.kind = BlobKind::Shipment,
              .fingerprint = fingerprint_,
              .origin = writer_id_,
              .number = sequence_++,
              .steps = steps});
  return blob;
}

std::size_t PackedSteps::steps() const {
  const base::MutexLock lock(mutex_);
  return steps_;
}

std::size_t PackedSteps::bytes() const {
  const base::MutexLock lock(mutex_);
  return bytes_;
}

std::uint64_t PackedSteps::sequence() const {
  const base::MutexLock lock(mutex_);
  return sequence_;
}

}  // namespace reprise::remote

namespace reprise {

StepPacker::StepPacker(ReplayBuffer& buffer, std::optional<std::uint64_t> writer_id) {
  buffer::BufferCore& core = *buffer.core_;
  core.life().check();
  if (core.slots().alive() != 0 || core.step_log) {
    base::refuse<std::logic_error>("StepPacker: the buffer has ",
                                   core.step_log ? "a packer" : "writers",
                                   "; make it before the writers, and once");
  }
  steps_ =
      std::make_shared<remote::PackedSteps>(core, writer_id ? *writer_id : remote::random_id());
  core.step_log = steps_;
}

Blob StepPacker::take() {
  return steps_->take();
}
std::size_t StepPacker::steps_of(std::span<const std::byte> shipment) {
  return static_cast<std::size_t>(remote::open(shipment, remote::BlobKind::Shipment).steps);
}
std::size_t StepPacker::steps() const {
  return steps_->steps();
}
std::size_t StepPacker::bytes() const {
  return steps_->bytes();
}
std::uint64_t StepPacker::writer_id() const noexcept {
  return steps_->writer_id();
}
std::uint64_t StepPacker::sequence() const {
  return steps_->sequence();
}

}  // namespace reprise
