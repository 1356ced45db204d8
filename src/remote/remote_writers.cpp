#include "remote/remote_writers.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>

namespace reprise::remote {
namespace {

/// How long an append waits before it asks its hook again, for which it releases its locks.
constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(50);

/// The `End` with which a step of the segment is committed.
End end_of(const Segment& head, std::size_t step) noexcept {
  return step + 1 == head.steps && head.end != Segment::kCut ? static_cast<End>(head.end)
                                                             : End::Continue;
}

/// Reads the priorities of a segment, commit by commit.
class Priorities {
 public:
  Priorities(const SegmentView& segment, std::size_t done) noexcept : segment_(segment) {
    for (std::size_t i = 0; i < done; ++i) {
      static_cast<void>(next(i, 0));
    }
  }

  /// The priorities of the last `items` items that this step's commit decides; none if the segment
  /// has none. The remote commit may have decided more items: if the episode began anew in this
  /// buffer, the steps are missing here with which the other items begin.
  std::span<const float> next(std::size_t step, std::size_t items) noexcept {
    if (segment_.priorities.empty()) {
      return {};
    }
    std::uint32_t count = 0;
    std::memcpy(&count, segment_.counts.data() + step * sizeof(count), sizeof(count));
    const std::size_t used = std::min<std::size_t>(count, items);
    scratch_.assign(items, kInitialPriority);
    if (used != 0) {
      std::memcpy(scratch_.data() + (items - used),
                  segment_.priorities.data() + (at_ + count - used) * sizeof(float),
                  used * sizeof(float));
    }
    at_ += count;
    return scratch_;
  }

 private:
  const SegmentView& segment_;
  std::size_t at_ = 0;
  std::vector<float> scratch_;
};

/// Unlocks, at the end of a scope, a mutex that the caller has locked.
class REPRISE_SCOPED_CAPABILITY AdoptedLock {
 public:
  explicit AdoptedLock(base::Mutex& mutex) REPRISE_REQUIRES(mutex) : mutex_(mutex) {}
  ~AdoptedLock() REPRISE_RELEASE() { mutex_.unlock(); }
  AdoptedLock(const AdoptedLock&) = delete;
  AdoptedLock& operator=(const AdoptedLock&) = delete;

 private:
  base::Mutex& mutex_;
};

}  // namespace

TakenNumbers::State TakenNumbers::state_of(std::uint64_t number) const noexcept {
  if (intervals_.empty() || number > intervals_.back().last) {
    return State::New;
  }
  return std::ranges::any_of(
             intervals_,
             [=](const Interval& taken) { return number >= taken.first && number <= taken.last; })
             ? State::Taken
             : State::Late;
}

void TakenNumbers::take(std::uint64_t number) {
  if (!intervals_.empty() && intervals_.back().last + 1 == number) {
    ++intervals_.back().last;
  } else {
    intervals_.push_back({number, number});
  }
}

/// Begins an episode for a segment that does not go on where the steps appended so far end. If the
/// segment does not begin with the remote episode either, the first items are lacking here.
void RemoteStream::begin(const SegmentView& segment, const StepBytes& bytes, std::size_t& done,
                         AppendResult& result) {
  const Segment& head = segment.head;
  const std::uint64_t first = head.position + done;
  const bool restarted_before = episode_ == head.episode && position_ == first;
  if (first != 0 && !restarted_before) {
    ++result.restarted;
  }
  // Items begin only at multiples of the period, and only those steps have states.
  const std::uint64_t skip = (bytes.every - first % bytes.every) % bytes.every;
  const auto from = static_cast<std::size_t>(std::min<std::uint64_t>(done + skip, head.steps));
  if (from == head.steps) {
    writer_->end_at_last_commit();
  } else {
    // The writer begins an episode before anything else that may throw, so that no later step
    // continues the earlier episode.
    writer_->begin_episode();
    writer_->write_first(segment.rows.data() + from * bytes.step());
  }
  episode_ = head.episode;
  done = from;
  position_ = head.position + done;
}

CommitStatus RemoteStream::append(const SegmentView& segment, const StepBytes& bytes,
                                  std::chrono::nanoseconds timeout, std::size_t& done,
                                  AppendResult& result) {
  const Segment& head = segment.head;
  const bool goes_on =
      writer_->in_episode() && episode_ == head.episode && position_ == head.position + done;
  if (done < head.steps) {
    if (!goes_on) {
      begin(segment, bytes, done, result);
    }
    writer_->set_timeout(timeout);
    Priorities priorities(segment, done);
    const std::uint64_t kept_first = bytes.kept(0, head.position);
    const std::byte* row = segment.rows.data() + bytes.observations + done * bytes.step();
    for (; done < head.steps; row += bytes.step()) {
      const std::uint64_t position = head.position + done;
      const std::byte* const state =
          bytes.states == 0 || position % bytes.every != 0
              ? nullptr
              : segment.states.data() + (bytes.kept(0, position) - kept_first) * bytes.states;
      writer_->write_step(row, row + bytes.columns, state);
      const End end = end_of(head, done);
      const std::span<const float> of_step = segment.priorities.empty()
                                                 ? std::span<const float>()
                                                 : priorities.next(done, writer_->completing(end));
      const CommitStatus status = writer_->commit(end, of_step);
      if (status != CommitStatus::Committed) {
        return status;
      }
      ++done;
      ++position_;
      ++result.steps;
    }
  } else if (!goes_on) {
    return CommitStatus::Committed;  // The segment ends an episode that has no step here.
  }
  if (head.end == Segment::kCut) {
    writer_->end_at_last_commit();
  }
  return CommitStatus::Committed;
}

RemoteWriters::RemoteWriters(std::shared_ptr<buffer::BufferCore> core)
    : core_(std::move(core)),
      bytes_(core_->format()),
      fingerprint_(fingerprint(core_->schema(), core_->options().window)) {}

/// The remote writer of this id, which is added if it is new.
std::shared_ptr<RemoteWriters::Remote> RemoteWriters::remote(std::uint64_t writer_id) {
  const base::MutexLock lock(mutex_);
  if (const auto found = remotes_.find(writer_id); found != remotes_.end()) {
    return found->second;
  }
  if (remotes_.size() >= forget_at_) {
    forget_closed();
  }
  return remotes_.emplace(writer_id, std::make_shared<Remote>()).first->second;
}

/// Forgets the writers that were closed longest ago, because memory would grow with every writer.
void RemoteWriters::forget_closed() {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> closed;  // When each was closed, and its id.
  for (const auto& [writer_id, remote] : remotes_) {
    // Pointers to it are copied with `mutex_` held, so if this is the only one, no call has one.
    if (remote.use_count() == 1 && remote->closed != 0) {
      closed.emplace_back(remote->closed, writer_id);
    }
  }
  std::ranges::sort(closed);
  const std::size_t forgotten = closed.size() - std::min(closed.size(), kRemembered);
  for (std::size_t i = 0; i < forgotten; ++i) {
    remotes_.erase(closed[i].second);
  }
  forget_at_ = remotes_.size() + kRemembered;
}

/// Makes a local writer. Returns null if `max_writers` writers are alive.
std::unique_ptr<writer::WriterCore> RemoteWriters::make_writer() {
  const std::optional<std::size_t> slot = core_->slots().take();
  if (!slot) {
    return nullptr;
  }
  try {
    return std::make_unique<writer::WriterCore>(core_, *slot, WriterOptions{});
  } catch (...) {
    core_->slots().give_back(*slot);
    throw;
  }
}

/// Makes a writer for each environment of the segments, or for as many as have a place. Fewer may
/// be enough, because environments take a writer over from each other between episodes. Makes none
/// and returns false if they are not enough.
bool RemoteWriters::make_streams(Remote& remote, std::span<const SegmentView> segments) {
  std::map<std::uint32_t, RemoteStream> added;
  bool has_place = true;
  for (const SegmentView& segment : segments) {
    const std::uint32_t stream = segment.head.stream;
    if (has_place && segment.head.steps != 0 && !remote.streams.contains(stream) &&
        !added.contains(stream)) {
      std::unique_ptr<writer::WriterCore> writer = make_writer();
      has_place = writer != nullptr;
      if (has_place) {
        added.emplace(stream, std::move(writer));
      }
    }
  }
  std::set<std::uint32_t> under_way;  // The environments that have an episode under way.
  for (const auto& [stream, writer] : remote.streams) {
    if (!writer.idle()) {
      under_way.insert(stream);
    }
  }
  const std::size_t writers = remote.streams.size() + added.size();
  for (const SegmentView& segment : segments) {
    if (segment.head.steps == 0) {
      continue;  // Such a segment needs no writer, and does not always end an episode here.
    }
    under_way.insert(segment.head.stream);
    if (under_way.size() > writers) {
      return false;
    }
    if (segment.head.end != static_cast<std::uint32_t>(End::Continue)) {
      under_way.erase(segment.head.stream);
    }
  }
  remote.streams.merge(added);
  note_streams(remote);
  return true;
}

/// The writer for a segment: that of its environment, or that of another environment that is
/// between two episodes. Null for the end of an episode that has no step here.
RemoteStream* RemoteWriters::stream_for(Remote& remote, const Segment& head) {
  if (const auto own = remote.streams.find(head.stream); own != remote.streams.end()) {
    return &own->second;
  }
  if (head.steps == 0) {
    return nullptr;
  }
  auto idle = remote.streams.extract(std::ranges::find_if(
      remote.streams, [](const auto& stream) { return stream.second.idle(); }));
  idle.key() = head.stream;
  return &remote.streams.insert(std::move(idle)).position->second;
}

/// Counts the writer's streams in a word that can be read without waiting for the writer's append.
void RemoteWriters::note_streams(Remote& remote) {
  const base::MutexLock lock(mutex_);
  remote.open = remote.streams.size();
  remote.closed = remote.open == 0 ? remote.closed : 0;
}

/// Gives back the writers that are between two episodes. Passes over remote writers whose append is
/// under way, because that may wait for long.
void RemoteWriters::give_back_idle() {
  for (const std::shared_ptr<Remote>& remote : all()) {
    if (!remote->mutex.try_lock()) {
      continue;
    }
    const AdoptedLock lock(remote->mutex);
    if (!remote->part) {  // A partly appended shipment may still need all writers.
      std::erase_if(remote->streams, [](const auto& stream) { return stream.second.idle(); });
      note_streams(*remote);
    }
  }
}

AppendResult RemoteWriters::append(Bytes blob, std::chrono::nanoseconds timeout, WaitHook* hook) {
  const std::optional<AppendResult> result = attempt(parse(blob), timeout, hook);
  if (!result) {
    base::refuse<std::runtime_error>(base::Call{"ReplayShard::append"}, no_writer_slot());
  }
  return *result;
}

std::string RemoteWriters::no_writer_slot() const {
  return base::text("max_writers is ", core_->options().max_writers,
                    ", and that many writers are alive");
}

Shipment RemoteWriters::parse(Bytes blob) const {
  return parse_shipment(blob, *core_, fingerprint_);
}

std::optional<AppendResult> RemoteWriters::attempt(const Shipment& shipment,
                                                   std::chrono::nanoseconds timeout,
                                                   WaitHook* hook) {
  base::require(timeout.count() >= 0, base::Call{"ReplayShard::append"}, "timeout is ",
                timeout.count(), " ns; allowed: at least 0");
  core_->life().check_not_forked();
  const base::Clock::time_point start = base::Clock::now();
  const bool waits = hook == nullptr || hook->keep_waiting(std::chrono::nanoseconds(0));
  const base::Clock::time_point deadline = waits ? base::deadline_after(timeout) : start;
  const std::shared_ptr<Remote> remote = this->remote(shipment.header.origin);
  AppendResult all;
  for (base::Clock::time_point until;;) {
    until = hook == nullptr ? deadline : std::min(deadline, base::deadline_after(kSlice));
    std::optional<AppendResult> part = append(*remote, shipment, until);
    if (!part) {
      give_back_idle();
      part = append(*remote, shipment, until);
    }
    if (!part) {
      return all.steps == 0 ? std::nullopt : std::optional(all);
    }
    all.status = part->status;
    all.steps += part->steps;
    all.repeated = part->repeated;
    all.restarted += part->restarted;
    if (all.status != CommitStatus::TimedOut || until == deadline) {
      return all;
    }
    if (!hook->keep_waiting(base::Clock::now() - start)) {
      all.status = CommitStatus::Stopped;
      return all;
    }
  }
}

/// Appends with the writer's lock held. Waits for another append of the writer, unless the deadline
/// is over.
std::optional<AppendResult> RemoteWriters::append(Remote& remote, const Shipment& shipment,
                                                  base::Clock::time_point deadline) {
  if (deadline > base::Clock::now()) {
    const base::MutexLock lock(remote.mutex);
    return append_locked(remote, shipment, deadline);
  }
  if (!remote.mutex.try_lock()) {
    return AppendResult{.status = CommitStatus::TimedOut};
  }
  const AdoptedLock lock(remote.mutex);
  return append_locked(remote, shipment, deadline);
}

/// Appends what is missing of the shipment. Returns nothing if there is no place for a writer that
/// it needs.
std::optional<AppendResult> RemoteWriters::append_locked(Remote& remote, const Shipment& shipment,
                                                         base::Clock::time_point deadline) {
  const std::uint64_t number = shipment.header.number;
  AppendResult result;
  const TakenNumbers::State state = remote.taken.state_of(number);
  if (state == TakenNumbers::State::Taken) {
    result.repeated = true;
    return result;
  }
  base::require(state == TakenNumbers::State::New, "shipment ", number,
                " came after a later one of its writer; allowed: one after the other");
  std::optional<Part>& part = remote.part;
  base::require(!part || part->number != number || part->checksum == shipment.header.checksum,
                "shipment ", number, " differs from the one of which a part is in");
  base::require(!part || part->number <= number, "shipment ", number,
                " came after a later one of its writer; allowed: one after the other");
  const std::size_t done = part && part->number == number ? part->segments : 0;
  if (!make_streams(remote, std::span(shipment.segments).subspan(done))) {
    return std::nullopt;
  }
  if (!part || part->number != number) {
    part = Part{.number = number, .checksum = shipment.header.checksum};
  }
  append_segments(remote, shipment, deadline, result);
  return result;
}

/// Appends the rest of the shipment, until a step finds no room. Notes how far it came, or that all
/// of the shipment is in.
void RemoteWriters::append_segments(Remote& remote, const Shipment& shipment,
                                    base::Clock::time_point deadline, AppendResult& result) {
  Part& part = *remote.part;
  for (; part.segments < shipment.segments.size(); ++part.segments, part.steps = 0) {
    const SegmentView& segment = shipment.segments[part.segments];
    const auto left = std::max(std::chrono::nanoseconds(deadline - base::Clock::now()),
                               std::chrono::nanoseconds(0));
    RemoteStream* const stream = stream_for(remote, segment.head);
    if (stream == nullptr) {
      continue;
    }
    const std::size_t before = result.steps;
    result.status = stream->append(segment, bytes_, left, part.steps, result);
    remote.steps += result.steps - before;
    stream->used = remote.steps;
    if (result.status != CommitStatus::Committed) {
      return;
    }
  }
  remote.taken.take(shipment.header.number);
  remote.part.reset();
  // All later episodes of an environment may go to other shards, and its open chunk would stay in
  // this buffer for ever. So its writer is closed once others have appended some chunks meanwhile.
  constexpr std::uint64_t kIdleChunks = 4;
  const std::uint64_t most_idle = kIdleChunks * core_->options().chunk_steps;
  const std::uint64_t steps = remote.steps;
  std::erase_if(remote.streams, [&](const auto& stream) {
    return stream.second.idle() && steps - stream.second.used > most_idle;
  });
  note_streams(remote);
}

std::size_t RemoteWriters::close(std::uint64_t writer_id) {
  std::shared_ptr<Remote> remote;
  {
    const base::MutexLock lock(mutex_);
    const auto found = remotes_.find(writer_id);
    if (found == remotes_.end()) {
      return 0;
    }
    remote = found->second;
  }
  // The destructors of these writers end the episodes, after the locks are released.
  std::map<std::uint32_t, RemoteStream> closed;
  {
    const base::MutexLock lock(remote->mutex);
    closed.swap(remote->streams);
    note_streams(*remote);
    const base::MutexLock count(mutex_);
    remote->closed = ++closed_;
  }
  return closed.size();
}

std::vector<std::shared_ptr<RemoteWriters::Remote>> RemoteWriters::all() const {
  std::vector<std::shared_ptr<Remote>> remotes;
  const base::MutexLock lock(mutex_);
  std::ranges::transform(remotes_, std::back_inserter(remotes),
                         [](const auto& entry) { return entry.second; });
  return remotes;
}

std::size_t RemoteWriters::size() const {
  const base::MutexLock lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(remotes_, [](const auto& entry) { return entry.second->open != 0; }));
}

}  // namespace reprise::remote
