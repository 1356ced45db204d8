#include "base/normal.hpp"
#include "process/session.hpp"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

namespace reprise::process {
namespace {

/// The longest wait of a step for a chunk, where `set_wait_deadline` allows waits.
constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(1);

/// Makes a writer that polls. Throws `std::runtime_error` if `max_writers` writers are alive.
std::unique_ptr<writer::WriterCore> make_writer(const std::shared_ptr<buffer::BufferCore>& core,
                                                WaitHook& hook) {
  const std::optional<std::size_t> slot = core->slots().take();
  if (!slot) {
    base::refuse<std::runtime_error>("max_writers is ", core->options().max_writers,
                                     ", and that many writers are alive");
  }
  try {
    WriterOptions options{.timeout = kPatience};
    options.hook = &hook;
    return std::make_unique<writer::WriterCore>(core, *slot, options, /*polls=*/true);
  } catch (...) {
    core->slots().give_back(*slot);
    throw;
  }
}

/// Throws because a ring holds what no writer of this library writes.
[[noreturn]] void refuse_ring(const char* what) {
  base::refuse<std::runtime_error>("the memory of a guest's writer is damaged: ", what);
}

}  // namespace

WriterSession::WriterSession(std::shared_ptr<buffer::BufferCore> core, std::size_t environments,
                             std::size_t rows)
    : core_(std::move(core)),
      layout_(core_->format(), environments, rows),
      memory_(Region::make(layout_.bytes())) {
  ::new (memory_.data()) SharedWords();
  for (std::size_t e = 0; e < environments; ++e) {
    ::new (&RingLayout::words(memory_.data(), e)) RingLayout::Words();
    streams_.emplace_back().writer = make_writer(core_, wait_until_);
  }
}

WriterSession::~WriterSession() = default;

bool WriterSession::handle(const Message& message, Channel& /*channel*/) {
  return message.kind == MessageKind::Wake;
}

bool WriterSession::finished() const noexcept {
  return std::ranges::all_of(streams_, [](const Stream& stream) {
    return stream.row == stream.end && !stream.writer->in_episode();
  });
}

/// Notes which rows are published. Rows published later are not taken: the guest is gone, so
/// something else would have written them.
void WriterSession::guest_left(bool died) noexcept {
  for (std::size_t e = 0; e < streams_.size(); ++e) {
    streams_[e].end = published(e);
  }
  guest_left_ = true;
  died_ = died;
}

void WriterSession::pause() noexcept {
  set_wait_deadline(base::Clock::time_point::min());
  for (const Stream& stream : streams_) {
    stream.writer->give_up_turn();
  }
}

std::uint64_t WriterSession::published(std::size_t environment) const noexcept {
  return guest_left_ ? streams_[environment].end
                     : RingLayout::words(memory_.data(), environment).published();
}

/// Ends the open episodes whose steps have all been taken, if there is a chunk for their open
/// steps.
void WriterSession::end_episodes() noexcept {
  for (Stream& stream : streams_) {
    if (stream.row == stream.end && stream.writer->in_episode() && stream.writer->poll_end() &&
        died_) {
      // Relaxed: a statistic.
      core_->counters.cut_episodes.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

Session::Progress WriterSession::serve(Channel* channel) {
  std::size_t steps = 0;
  std::uint64_t rows = 0;
  bool more = false;
  for (std::size_t e = 0; e < streams_.size(); ++e) {
    const std::uint64_t first = streams_[e].row;
    const std::size_t taken = take(e);
    rows += streams_[e].row - first;
    steps += taken;
    more = more || taken == kSteps;
  }
  if (guest_left_) {
    end_episodes();
  }
  if (rows == 0) {
    return held_ == HoldReason::ByLimiter ? Progress::Waits : Progress::Nothing;
  }
  if (died_) {
    // Relaxed: a statistic.
    core_->counters.dead_guest_steps.fetch_add(steps, std::memory_order_relaxed);
  }
  if (channel != nullptr && RingLayout::shared(memory_.data()).waiting.take()) {
    channel->send(MessageKind::Wake);
  }
  return more ? Progress::ReachedLimit : Progress::Something;
}

/// Takes published steps as far as there is room. Returns how many it took.
std::size_t WriterSession::take(std::size_t environment) {
  Stream& stream = streams_[environment];
  RingLayout::Words& words = RingLayout::words(memory_.data(), environment);
  const std::uint64_t published = this->published(environment);
  const std::uint64_t first = stream.row;
  if (published - first > layout_.rows()) {
    refuse_ring("more rows are published than a ring has");
  }
  const auto deferred_ring = stream.writer->deferred_ring();
  std::size_t steps = 0;
  while (stream.row != published && steps < kSteps) {
    std::byte* const row = layout_.row(memory_.data(), environment, stream.row);
    StepHeader header;  // A copy, because the guest can change the row at any time.
    if (stream.refused) {
      header = *stream.refused;
    } else {
      std::memcpy(&header, row, sizeof(header));
    }
    if (header.kind == StepHeader::Kind::Cut) {
      if (!stream.writer->poll_end()) {
        publish_held(lacking(stream));
        break;
      }
      publish_held(HoldReason::No);
      ++stream.row;
      continue;
    }
    const bool ends = header.end != static_cast<std::uint8_t>(End::Continue);
    if (header.kind != StepHeader::Kind::Step ||
        header.end > static_cast<std::uint8_t>(End::Truncated) ||
        published - stream.row < (ends ? 2U : 1U)) {
      refuse_ring("a row is no step");
    }
    if (!take_step(environment, row, header)) {
      break;
    }
    stream.row += ends ? 2 : 1;
    ++steps;
  }
  if (stream.row != first) {
    words.consume(stream.row);
  }
  return steps;
}

/// Appends a step. Returns false if there is no room for it.
bool WriterSession::take_step(std::size_t environment, std::byte* row, const StepHeader& header) {
  Stream& stream = streams_[environment];
  const storage::RowLayout& layout = core_->layout();
  const End end = static_cast<End>(header.end);
  try {
    if (!stream.refused) {
      if (header.first != 0) {
        stream.writer->begin_episode();
        stream.writer->write_first(row + layout.headers_end());
      } else if (!stream.writer->in_episode()) {
        refuse_ring("a step goes on with no episode");
      }
      const std::byte* const next =
          layout_.row(memory_.data(), environment, stream.row + 1) + layout.headers_end();
      const bool keeps_states =
          layout.state_mask() != 0 && stream.writer->position() % core_->window().item_every() == 0;
      stream.writer->write_step(row + layout.observations_end(), next,
                                keeps_states ? layout_.state(row) : nullptr);
      stream.refused = header;
    }
    const CommitStatus status = stream.writer->commit(end, priorities(stream, row, header));
    if (status != CommitStatus::Committed) {
      publish_held(lacking(stream));
      return false;
    }
  } catch (const std::system_error&) {  // The disk of a mapped file is full, for now.
    publish_held(HoldReason::ByDisk);
    return false;
  }
  stream.refused.reset();
  publish_held(HoldReason::No);
  return true;
}

/// Returns the priorities that the step brings, checked as far as the buffer depends on them.
std::vector<float> WriterSession::priorities(const Stream& stream, std::byte* row,
                                             const StepHeader& header) const {
  if (header.priorities > layout_.priorities()) {
    refuse_ring("a step brings more priorities than there is room for");
  }
  std::vector<float> priorities(header.priorities);
  if (!priorities.empty()) {
    std::memcpy(priorities.data(), layout_.priorities(row), priorities.size() * sizeof(float));
  }
  stream.writer->check_priority_count(stream.writer->completing(static_cast<End>(header.end)),
                                      priorities.size());
  // The guest has checked their weights with the exponent that it knows. With another one that was
  // set since, weights are clamped at ingestion.
  if (!std::ranges::all_of(priorities, base::finite_and_not_negative)) {
    refuse_ring("a priority is not finite and at least 0");
  }
  return priorities;
}

/// What holds a writer that has found no room.
HoldReason WriterSession::lacking(const Stream& stream) noexcept {
  return stream.writer->lacks_disk() ? HoldReason::ByDisk : HoldReason::ByLimiter;
}

void WriterSession::publish_held(HoldReason held) noexcept {
  if (held != held_) {
    held_ = held;
    // Relaxed: see SharedWords.
    RingLayout::shared(memory_.data())
        .held.store(static_cast<std::uint32_t>(held), base::Order::Relaxed);
  }
}

}  // namespace reprise::process
