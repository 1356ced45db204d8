#include "remote/deliveries.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace reprise {

using Kind = ShipmentOutcome::Kind;

namespace remote {
namespace {

/// The first part of a call. Behind it follow the heads of all shipments, and then the shipments.
struct ShipmentsHead {
  std::uint64_t incarnation = 0;
  std::uint64_t count = 0;
};
struct ShipmentHead {
  std::uint64_t writer_id = 0;
  std::uint64_t bytes = 0;
};
/// An outcome in the answer. The text of `ShipmentOutcome::reason` follows.
struct OutcomeHead {
  std::uint64_t steps = 0;
  std::uint32_t kind = 0;
  std::uint32_t reason = 0;  ///< Bytes of the text.
};

struct Parsed {
  BlobHeader header;
  ShipmentsHead head;
  std::vector<ShipmentOf> shipments;
};

Parsed parse(Bytes call) {
  Parsed parsed{open(call, BlobKind::Shipments), {}, {}};
  BlobReader reader(call, "shipments");
  parsed.head = reader.value<ShipmentsHead>();
  std::vector<ShipmentHead> heads;
  for (std::uint64_t i = 0; i < parsed.head.count; ++i) {
    heads.push_back(reader.value<ShipmentHead>());
  }
  for (const ShipmentHead& one : heads) {
    parsed.shipments.push_back({one.writer_id, reader.bytes(one.bytes)});
  }
  reader.finish();
  return parsed;
}

Kind kind_of(const std::exception& error) noexcept {
  if (dynamic_cast<const std::invalid_argument*>(&error) != nullptr) {
    return Kind::Invalid;
  }
  if (dynamic_cast<const std::system_error*>(&error) != nullptr) {
    return Kind::System;
  }
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? Kind::Memory : Kind::Other;
}

ShipmentOutcome outcome_of(const AppendResult& result) {
  ShipmentOutcome outcome{.steps = result.steps};
  if (result.status == CommitStatus::TimedOut || result.status == CommitStatus::Stopped) {
    outcome.kind = Kind::TimedOut;
    outcome.reason = "the shard has no room for more steps yet";
  } else if (result.status != CommitStatus::Committed) {
    outcome.kind = Kind::Closed;
    outcome.reason = "the buffer is closed";
  }
  return outcome;
}

}  // namespace

Blob refusal(buffer::BufferCore& core, std::uint64_t incarnation) {
  Blob answer(sizeof(BlobHeader));
  seal(answer, {.kind = core.closed() ? BlobKind::Closed : BlobKind::Refused,
                .origin = incarnation,
                .steps = core.slots().committed()});
  return answer;
}

Deliveries::Deliveries(buffer::BufferCore& core, RemoteWriters& writers, std::uint64_t incarnation,
                       const ShardPatience& patience)
    : core_(core), writers_(writers), incarnation_(incarnation), patience_(patience) {}

/// A call that is under way. Meanwhile its process does not count as silent, however long the call
/// waits for room.
class Deliveries::Call {
 public:
  Call(Deliveries& deliveries, std::uint64_t process) : deliveries_(deliveries), process_(process) {
    const base::MutexLock lock(deliveries_.mutex_);
    ++deliveries_.last_heard_[process_].calls;
  }
  ~Call() {
    const base::MutexLock lock(deliveries_.mutex_);
    Process& process = deliveries_.last_heard_.find(process_)->second;
    process.heard = base::Clock::now();
    --process.calls;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  Deliveries& deliveries_;
  const std::uint64_t process_;
};

/// Implements `ReplayShard::append_all`. Once a shipment of a writer is refused, the writer's later
/// ones are refused as well, because they go on where it ends.
Blob Deliveries::append_all(Bytes call, std::chrono::nanoseconds timeout, std::size_t most,
                            WaitHook* hook) {
  core_.life().check_not_forked();
  const Parsed parsed = parse(call);
  const std::uint64_t process = parsed.header.origin;
  const Call under_way(*this, process);
  close_silent(patience_.forgotten);
  const std::uint64_t incarnation = parsed.head.incarnation;
  if (core_.closed() || (incarnation != 0 && incarnation != incarnation_)) {
    return refusal(core_, incarnation_);
  }
  std::vector<ShipmentOutcome> outcomes;
  std::map<std::uint64_t, ShipmentOutcome> refused;
  for (const ShipmentOf& one :
       std::span(parsed.shipments).first(std::min(most, parsed.shipments.size()))) {
    if (const auto earlier = refused.find(one.writer_id); earlier != refused.end()) {
      outcomes.push_back(earlier->second);
      outcomes.back().steps = 0;
      continue;
    }
    outcomes.push_back(append_or_close(one, process, timeout, hook));
    if (outcomes.back().kind != Kind::Appended) {
      refused.emplace(one.writer_id, outcomes.back());
    }
  }
  return answer_of(outcomes);
}

Blob Deliveries::answer_of(std::span<const ShipmentOutcome> outcomes) const {
  std::size_t bytes = sizeof(BlobHeader);
  for (const ShipmentOutcome& one : outcomes) {
    bytes += sizeof(OutcomeHead) + one.reason.size();
  }
  Blob answer(bytes);
  BlobWriter writer(answer);
  for (const ShipmentOutcome& one : outcomes) {
    writer.value(OutcomeHead{.steps = one.steps,
                             .kind = static_cast<std::uint32_t>(one.kind),
                             .reason = static_cast<std::uint32_t>(one.reason.size())});
    writer.bytes(std::as_bytes(std::span(one.reason)));
  }
  seal(answer, {.kind = BlobKind::Outcomes,
                .origin = incarnation_,
                .number = outcomes.size(),
                .steps = core_.slots().committed()});
  return answer;
}

/// Appends one shipment of a call; an empty one closes its writer.
ShipmentOutcome Deliveries::append_or_close(const ShipmentOf& one, std::uint64_t process,
                                            std::chrono::nanoseconds timeout, WaitHook* hook) {
  if (one.shipment.empty()) {
    {
      const base::MutexLock lock(mutex_);
      processes_.erase(one.writer_id);
    }
    static_cast<void>(writers_.close(one.writer_id));
    return {};
  }
  try {
    const Shipment shipment = writers_.parse(one.shipment);
    const std::uint64_t writer = shipment.header.origin;
    base::require(writer == one.writer_id, base::Call{"ReplayShard::append_all"}, "writer_id is ",
                  one.writer_id, "; allowed: ", writer, ", the writer of the shipment");
    {  // Noted first, because the writer may have a place even if the call below throws.
      const base::MutexLock lock(mutex_);
      processes_[one.writer_id] = process;
    }
    const std::optional<AppendResult> result = append(shipment, timeout, hook);
    if (!result) {
      return {.kind = Kind::NoWriter, .reason = writers_.no_writer_slot()};
    }
    const base::MutexLock lock(mutex_);
    counts_.restarted_episodes += result->restarted;
    return outcome_of(*result);
  } catch (const std::exception& error) {
    return {.kind = kind_of(error), .reason = error.what()};
  }
}

/// Appends a shipment. Returns nothing if there is no place for its writer, even after the writers
/// of silent processes were closed.
std::optional<AppendResult> Deliveries::append(const Shipment& shipment,
                                               std::chrono::nanoseconds timeout, WaitHook* hook) {
  for (;;) {
    std::optional<AppendResult> result = writers_.attempt(shipment, timeout, hook);
    if (result || close_silent(patience_.silent) == 0) {
      return result;
    }
  }
}

void Deliveries::note_alive(std::uint64_t process) {
  const base::MutexLock lock(mutex_);
  last_heard_[process].heard = base::Clock::now();
}

/// Closes the writers of processes that were silent for longer than `silent`, and returns how many.
std::size_t Deliveries::close_silent(std::chrono::nanoseconds silent) {
  std::vector<std::uint64_t> writers;
  {
    std::set<std::uint64_t> gone;
    const base::MutexLock lock(mutex_);
    const base::Clock::time_point now = base::Clock::now();
    for (auto process = last_heard_.begin(); process != last_heard_.end();) {
      if (is_silent(process->second, now, silent)) {
        gone.insert(process->first);
        process = last_heard_.erase(process);
      } else {
        ++process;
      }
    }
    for (auto writer = processes_.begin(); !gone.empty() && writer != processes_.end();) {
      if (gone.contains(writer->second)) {
        writers.push_back(writer->first);
        writer = processes_.erase(writer);
      } else {
        ++writer;
      }
    }
  }
  std::size_t closed = 0;
  for (const std::uint64_t writer : writers) {
    closed += writers_.close(writer) != 0 ? 1U : 0U;
  }
  const base::MutexLock lock(mutex_);
  counts_.silent_writers_closed += closed;
  return closed;
}

bool Deliveries::is_silent(const Process& process, base::Clock::time_point now,
                           std::chrono::nanoseconds silent) noexcept {
  return process.calls == 0 && now - process.heard > silent;
}

bool Deliveries::is_silent(std::uint64_t process) const {
  const base::MutexLock lock(mutex_);
  const auto found = last_heard_.find(process);
  return found == last_heard_.end() ||
         is_silent(found->second, base::Clock::now(), patience_.silent);
}

DeliveryCounts Deliveries::counts() const {
  const base::MutexLock lock(mutex_);
  return counts_;
}

}  // namespace remote

Blob shipments_of(std::uint64_t process, std::uint64_t incarnation,
                  std::span<const ShipmentOf> shipments) {
  using namespace remote;
  std::size_t bytes = sizeof(BlobHeader) + sizeof(ShipmentsHead);
  for (const ShipmentOf& one : shipments) {
    bytes += sizeof(ShipmentHead) + one.shipment.size();
  }
  Blob call(bytes);
  BlobWriter writer(call);
  writer.value(ShipmentsHead{.incarnation = incarnation, .count = shipments.size()});
  for (const ShipmentOf& one : shipments) {
    writer.value(ShipmentHead{.writer_id = one.writer_id, .bytes = one.shipment.size()});
  }
  for (const ShipmentOf& one : shipments) {
    writer.bytes(one.shipment);
  }
  seal(call, {.kind = BlobKind::Shipments, .origin = process});
  return call;
}

std::vector<ShipmentOutcome> outcomes_of(std::span<const std::byte> answer) {
  using namespace remote;
  const BlobHeader header = open(answer, BlobKind::Outcomes);
  BlobReader reader(answer, "outcomes");
  std::vector<ShipmentOutcome> outcomes;
  for (std::uint64_t i = 0; i < header.number; ++i) {
    const auto head = reader.value<OutcomeHead>();
    reader.require(head.kind <= static_cast<std::uint32_t>(Kind::Other), "an outcome of kind ",
                   head.kind);
    const Bytes reason = reader.bytes(head.reason);
    outcomes.push_back({.kind = static_cast<Kind>(head.kind),
                        .steps = static_cast<std::size_t>(head.steps),
                        .reason = {reinterpret_cast<const char*>(reason.data()), reason.size()}});
  }
  reader.finish();
  return outcomes;
}

}  // namespace reprise
