#pragma once

#include "testing/library.hpp"
#include "threads/shared.hpp"

namespace stress {

/// Thrown where a simulated environment fails.
struct SimulatorError : std::exception {};

/// One life of an actor: it makes a writer and plays some episodes. One thread.
class Actor {
 public:
  Actor(Shared& shared, std::size_t number)
      : shared_(shared),
        state_(shared.actors[number]),
        guest_(shared.is_guest_actor(number)),
        name_(shared.new_writer(guest_)),
        rng_(mix(shared.options.seed ^ std::uint64_t{name_} << 32U ^ shared.episodes.round())),
        watch_(guest_ ? shared.guests : shared.writers, WaitWatch::Counted::Failed) {}

  /// Returns false if the actor gets no further life: the buffer was closed, or the run ends.
  bool run_life() {
    const Gate::Presence presence(shared_.gate);
    ++state_.lives;
    bool open = true;
    try {
      const bool short_timeout = shared_.options.churn && rng_.one_in(2);
      const reprise::WriterOptions options = shared_.writer_options(short_timeout, watch_);
      std::optional<reprise::Writer> writer;
      if (!guest_) {
        writer.emplace(shared_.replay.writer(options));
      } else if (shared_.wait_for_free_writers()) {
        writer =
            shared_.make_by_guest([&](reprise::Guest& guest) { return guest.writer(options); });
      }
      state_.writers = writer ? 1 : 0;
      open = writer && play_episodes(*writer);
    } catch (const SimulatorError&) {
      ++state_.exceptions;  // The exception has destroyed the writer.
    }
    state_.writers = 0;
    state_.undecided_steps = 0;
    return open;
  }

 private:
  enum class Next : std::uint8_t { SameWriter, NewWriter, Stop };

  bool play_episodes(reprise::Writer& writer) {
    const std::uint64_t episodes = shared_.options.churn ? rng_.between(1, 20) : ~std::uint64_t{0};
    for (std::uint32_t e = 0; e < episodes && !shared_.stop.load(std::memory_order_relaxed); ++e) {
      const Next next = play(writer, e);
      if (next != Next::SameWriter) {
        return next == Next::NewWriter;
      }
    }
    return true;
  }

  Next play(reprise::Writer& writer, std::uint32_t number) {
    const Episode episode = shared_.episodes.episode(name_, number);
    state_.undecided_steps = 0;
    StepName step = shared_.world.begin(
        writer, {.writer = name_, .episode = number, .round = shared_.episodes.round()});
    if (!guest_) {
      shared_.arrivals.begin(step);
    }
    for (; step.position < episode.length; ++step.position) {
      park_if_closed(step);
      if (step.position == episode.throw_at) {
        throw_and_recover(writer);
      }
      shared_.world.write_step(writer, step);
      shared_.world.write_states(writer, step);
      if (!commit(writer, step, episode)) {
        return Next::Stop;
      }
    }
    switch (episode.ending) {
      case Ending::Terminated:
      case Ending::Truncated:
        break;
      case Ending::Restarted:
        write_garbage(writer);
        break;
      case Ending::WriterDestroyed:
        write_garbage(writer);
        return Next::NewWriter;
      case Ending::Throws:
        throw_mid_step(writer);
    }
    return Next::SameWriter;
  }

  bool commit(reprise::Writer& writer, const StepName& step, const Episode& episode) {
    const reprise::End end = episode.end_of(step.position + 1);
    priorities_.clear();
    shared_.add_priorities(step, episode, priorities_);
    if (episode.explicit_priorities && writer.completing(end) != priorities_.size()) {
      shared_.findings.add(Finding::WrongWindow,
                           "completing says " + std::to_string(writer.completing(end)) +
                               ", expected " + std::to_string(priorities_.size()));
    }
    while (true) {
      const reprise::CommitStatus status = writer.commit(end, priorities_);
      const bool taken = status == reprise::CommitStatus::Committed;
      watch_.end_wait(taken ? 1 : 0);
      if (taken) {
        break;
      }
      if (!should_retry(status, step)) {
        return false;
      }
    }
    stress::count(state_.committed, 1);
    if (!guest_) {
      shared_.arrivals.add(step);
    }
    return true;
  }

  /// Whether the actor commits the step `next` again, after a commit that ended with `status`.
  bool should_retry(reprise::CommitStatus status, const StepName& next) {
    shared_.check(status);
    if (status == reprise::CommitStatus::Closed) {
      return false;
    }
    park_if_closed(next);
    return !shared_.must_give_up();
  }

  /// If the gate is closed, waits until it opens.
  void park_if_closed(const StepName& next) {
    if (shared_.gate.closed()) {
      state_.undecided_steps = shared_.undecided_steps(next);
      shared_.gate.park();
    }
  }

  void throw_and_recover(reprise::Writer& writer) {
    try {
      throw_mid_step(writer);
    } catch (const SimulatorError&) {
      ++state_.exceptions;
    }
  }
  [[noreturn]] void throw_mid_step(reprise::Writer& writer) {
    write_garbage(writer);
    throw SimulatorError();
  }
  /// Writes a part of a step that is never committed, so no batch may ever show that part.
  void write_garbage(reprise::Writer& writer) {
    for (const reprise::AnyField field : shared_.world.fields()) {
      const bool observation = field.role() == reprise::Role::Observation;
      if (field.role() == reprise::Role::Version) {
        continue;  // A version written here would stay for the next committed step.
      }
      const std::span<std::byte> to = observation ? writer.next(field) : writer.now(field);
      std::ranges::fill(to.first((to.size() + 1) / 2), std::byte{0xDE});
    }
  }

  Shared& shared_;
  ActorState& state_;
  const bool guest_;
  const std::uint32_t name_;
  Rng rng_;
  std::vector<float> priorities_;
  WaitWatch watch_;
};

}  // namespace stress
