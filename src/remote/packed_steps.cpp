#include "remote/packed_steps.hpp"

#include "base/text.hpp"

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
         (priorities.empty() ? 0 : counts.size() * sizeof(std::uint32_t)) +
         priorities.size() * sizeof(float);
}

void PackedSteps::Parts::write(BlobWriter& to) const noexcept {
  Segment written = head;
  written.priorities = static_cast<std::uint32_t>(priorities.size());
  to.value(written);
  to.bytes(rows);
  to.bytes(states);
  if (!priorities.empty()) {
    to.bytes(std::as_bytes(std::span(counts)));
    to.bytes(std::as_bytes(std::span(priorities)));
  }
}

PackedSteps::PackedSteps(const Schema& schema, const Options& of_shards, std::uint64_t writer_id,
                         const PackerLanes& lanes)
    : outline(schema, of_shards),
      sizes_(outline.format),
      headers_end_(outline.format.layout.headers_end()),
      observations_end_(outline.format.layout.observations_end()),
      fingerprint_(fingerprint(schema, of_shards.window)),
      writer_id_(writer_id),
      longest_run_(lanes.longest_run),
      lanes_(lanes.count),
      next_lane_(lanes.first) {
  outline.format.window.refuse_streams(
      "other ends, as the episodes of an environment go to several shards",
      base::Call{"StepPacker"});
  base::require(lanes.count != 0, base::Call{"StepPacker"},
                "PackerLanes::count is 0; allowed: at least 1");
  base::require(lanes.first < lanes.count, base::Call{"StepPacker"}, "PackerLanes::first is ",
                lanes.first, "; allowed: 0 to ", lanes.count - 1);
  base::require(lanes.longest_run != 0, base::Call{"StepPacker"},
                "PackerLanes::longest_run is 0; allowed: at least 1");
}

std::size_t PackedSteps::add_stream() {
  life.check_not_forked();
  const base::MutexLock lock(mutex_);
  auto stream = std::ranges::find_if_not(streams_, &Stream::has_writer);
  if (stream == streams_.end()) {
    if (streams_.size() == outline.max_writers) {
      base::refuse<std::runtime_error>("max_writers is ", outline.max_writers,
                                       ", and that many writers are alive");
    }
    stream = streams_.emplace(stream);
  }
  stream->has_writer = true;
  return static_cast<std::size_t>(stream - streams_.begin());
}

void PackedSteps::leave(std::size_t stream) noexcept {
  const base::MutexLock lock(mutex_);
  end_episode(stream);
  streams_[stream].has_writer = false;
}

std::uint64_t PackedSteps::begin_episode(std::size_t stream) {
  life.check_not_forked();
  const base::MutexLock lock(mutex_);
  end_episode(stream);
  return episodes_++;
}

/// Whether a step at this position begins another run: it begins an episode, or the episode has had
/// `longest_run_` steps in its lane. An episode changes lanes only at a step that keeps its states.
bool PackedSteps::begins_run(const Stream& stream, std::uint64_t position) const noexcept {
  return !stream.in_episode || (stream.run >= longest_run_ && position % sizes_.every == 0);
}

/// The lane with the least load; of lanes with equal loads the next from `first` on.
std::size_t PackedSteps::least_loaded(std::size_t first) const noexcept {
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

void PackedSteps::make_room_in(Parts& parts, const Step& step, std::size_t row_bytes) const {
  make_room(parts.rows, row_bytes);
  make_room(parts.states, sizes_.states);
  make_room(parts.counts, 1);
  make_room(parts.priorities, step.priorities.size());
}

/// Makes `begun_` a segment with room for the step, and with the observations before it.
void PackedSteps::begin_segment(const Step& step, std::size_t lane) {
  begun_ = Parts();
  begun_.lane = lane;
  begun_.head = {.stream = static_cast<std::uint32_t>(step.stream),
                 .episode = step.episode,
                 .position = step.position};
  make_room_in(begun_, step, sizes_.observations + sizes_.step());
  add(begun_.rows, step.now + headers_end_, sizes_.observations);
}

/// Adds a step to a segment that has room for it.
void PackedSteps::add_step(Parts& parts, const Step& step) const noexcept {
  add(parts.rows, step.now + observations_end_, sizes_.columns);
  add(parts.rows, step.next + headers_end_, sizes_.observations);
  if (step.state != nullptr) {
    add(parts.states, step.state, sizes_.states);
  }
  parts.counts.push_back(static_cast<std::uint32_t>(step.priorities.size()));
  parts.priorities.insert(parts.priorities.end(), step.priorities.begin(), step.priorities.end());
  ++parts.head.steps;
  parts.head.end = static_cast<std::uint32_t>(step.end);
}

void PackedSteps::commit(const Step& step) {
  const base::MutexLock lock(mutex_);
  Stream& stream = streams_[step.stream];
  const bool new_run = begins_run(stream, step.position);
  const std::size_t lane =
      new_run ? least_loaded(stream.in_episode ? stream.lane : next_lane_) : stream.lane;
  const bool leaves = stream.in_episode && lane != stream.lane;
  // There must be room for three segments: that of this step, and one for each of two calls of
  // `cut`, which must not throw: the call below, and a later one that ends the episode.
  make_room(stream.segments, 3);
  const bool begins =
      leaves || !stream.extendable ||
      stream.segments.back().head.steps == std::numeric_limits<std::uint32_t>::max();
  if (begins) {
    begin_segment(step, lane);
  } else {
    make_room_in(stream.segments.back(), step, sizes_.step());
  }
  // Nothing throws from here on.
  if (new_run) {
    if (stream.in_episode) {
      end_run(stream);
    } else {
      next_lane_ = (lane + 1) % lanes_.size();
    }
    if (leaves) {
      cut(stream, step.stream);
    }
    begin_run(stream, lane);
  }
  if (begins) {
    stream.segments.push_back(std::move(begun_));
  }
  add_step(stream.segments.back(), step);
  stream.extendable = stream.in_episode = step.end == End::Continue;
  stream.episode = step.episode;
  stream.position = step.position + 1;
  ++stream.run;
  if (stream.run > stream.expected) {
    ++lanes_[lane].load;
  }
  ++lanes_[lane].steps;
  bytes_ += sizes_.step();
  if (!stream.in_episode) {
    end_run(stream);
  }
}

/// Ends the episode under way, if there is one, at its last step, as truncated.
void PackedSteps::end_episode(std::size_t number) noexcept {
  Stream& stream = streams_[number];
  if (!stream.in_episode) {
    return;  // No episode is open, or the open one has no step yet.
  }
  cut(stream, number);
  end_run(stream);
  stream.extendable = stream.in_episode = false;
}

/// Ends the open episode in the lane of its last segment. It may go on in another lane, where it
/// counts as a new one.
void PackedSteps::cut(Stream& stream, std::size_t number) noexcept {
  if (!stream.extendable) {  // The last segment is in a shipment, so one without steps is added.
    Parts parts;
    parts.lane = stream.lane;
    parts.head = {.stream = static_cast<std::uint32_t>(number),
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
    stream.extendable = stream.extendable && stream.lane != lane;
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
  life.check_not_forked();
  const base::MutexLock lock(mutex_);
  base::require(lane < lanes_.size(), base::Call{"StepPacker"}, "lane ", lane, "; allowed: 0 to ",
                lanes_.size() - 1);
}

std::size_t PackedSteps::steps() const {
  life.check_not_forked();
  const base::MutexLock lock(mutex_);
  return std::accumulate(lanes_.begin(), lanes_.end(), std::size_t{0},
                         [](std::size_t sum, const Lane& lane) { return sum + lane.steps; });
}

std::size_t PackedSteps::most_steps() const {
  life.check_not_forked();
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
  life.check_not_forked();
  const base::MutexLock lock(mutex_);
  return bytes_;
}

std::uint64_t PackedSteps::sequence(std::size_t lane) const {
  check(lane);
  const base::MutexLock lock(mutex_);
  return lanes_[lane].sequence;
}

}  // namespace reprise::remote
