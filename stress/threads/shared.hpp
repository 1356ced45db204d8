#pragma once

#include <reprise/guest.hpp>

#include "checks/arrivals.hpp"
#include "checks/draw_counts.hpp"
#include "checks/known_priorities.hpp"
#include "checks/testing.hpp"
#include "program/findings.hpp"
#include "program/options.hpp"
#include "program/strategies.hpp"
#include "testing/library.hpp"
#include "threads/gate.hpp"
#include "threads/wait_watch.hpp"

#include <deque>

namespace stress {

using Clock = std::chrono::steady_clock;

/// State of one actor. Its atomics are relaxed: while the actor runs other threads only display
/// them, and while it stands still the gate's mutex orders them.
struct alignas(64) ActorState {
  std::atomic<std::uint64_t> committed = 0;
  std::uint64_t undecided_steps = 0;  ///< Committed steps whose window is incomplete.
  std::uint64_t writers = 0;          ///< Writers that are alive.
  std::uint64_t lives = 0;
  std::uint64_t exceptions = 0;
};

/// An item whose key a learner uses again later.
struct KeptKey {
  reprise::ItemKey key;
  std::uint64_t hash = 0;  ///< Hash of the item's name.
};

/// State of one learner, which outlives its lives. Its atomics are relaxed as in ActorState.
struct alignas(64) LearnerState {
  std::atomic<std::uint64_t> batches = 0;
  std::atomic<std::uint64_t> sampled = 0;
  std::atomic<std::uint64_t> applied = 0;
  std::atomic<std::uint64_t> stale = 0;
  std::uint64_t lives = 0;
  std::vector<KeptKey> kept;
};

/// A buffer, and all that the threads of its round share.
struct Shared {
  Shared(const Options& o, const Episodes& e, Findings& f);

  /// Reports a commit that returned Closed although nobody closes the buffer. Acquire; partner: the
  /// conductor's store before it closes.
  void check(reprise::CommitStatus status) {
    if (status == reprise::CommitStatus::Closed && !closing.load(std::memory_order_acquire)) {
      findings.add(Finding::UnexpectedError, "commit says Closed");
    }
  }
  /// Whether an actor has to give up a commit that the rate limiter holds, because the run ends and
  /// nobody draws any more.
  [[nodiscard]] bool must_give_up() const {
    // Acquire for both; partners: the conductor's stores. Reading the first makes the second
    // visible.
    return strategies.may_hold_writers() && stop.load(std::memory_order_acquire) &&
           may_cut.load(std::memory_order_acquire);
  }

  /// Appends the priorities of the items whose windows the commit of this step completes, unless
  /// the episode gives no priorities.
  void add_priorities(const StepName& step, const Episode& episode, std::vector<float>& to) const {
    const std::uint32_t steps = step.position + 1;
    if (episode.explicit_priorities && windows.streams()) {
      if (const auto first = episodes.step_before(step, windows.full_length() - 1)) {
        to.push_back(priority_of(first_level(*first)));
      }
    } else if (episode.explicit_priorities) {
      const bool ends = episode.end_of(steps) != reprise::End::Continue;
      windows.each_decided(steps, ends, [&](std::uint32_t position) {
        StepName item = step;
        item.position = position;
        to.push_back(priority_of(first_level(item)));
      });
    }
  }

  /// Number of committed steps whose windows are incomplete, of a writer whose next step is `next`.
  [[nodiscard]] std::uint32_t undecided_steps(const StepName& next) const {
    std::uint32_t undecided_steps = windows.undecided_steps(next.position);
    while (windows.streams() && undecided_steps + 1 < windows.full_length() &&
           episodes.step_before(next, undecided_steps + 1)) {
      ++undecided_steps;
    }
    return undecided_steps;
  }

  /// Ingests everything that was committed before the call, and returns the buffer's counts. They
  /// are exact while no other call is under way.
  [[nodiscard]] reprise::Stats stats() const {
    static_cast<void>(replay.size());
    return replay.stats();
  }
  /// The greatest age in steps that `Fifo` allows (I13): the capacity, and a chunk for each writer
  /// and shard.
  [[nodiscard]] std::uint64_t max_item_age() const {
    const reprise::Options& o = replay.options();
    return o.capacity_steps + (o.max_writers + o.shards) * o.chunk_steps;
  }
  /// Whether the actor of this number is a guest; is_guest_learner is the same for learners.
  [[nodiscard]] bool is_guest_actor(std::size_t number) const {
    return number + std::min(options.guests, options.actors) >= options.actors;
  }
  [[nodiscard]] bool is_guest_learner(std::size_t number) const {
    return number < options.learners &&
           number + std::min(options.guests, options.learners) >= options.learners;
  }
  /// Gives a new writer its number.
  [[nodiscard]] std::uint32_t new_writer(bool guest) {
    return next_writer.fetch_add(1, std::memory_order_relaxed) | (guest ? StepName::kOfGuest : 0U);
  }
  /// Attaches a new guest and returns what `make` makes of it, a writer or a sampler; nothing if
  /// the buffer is closed.
  template <class Make>
  [[nodiscard]] auto make_by_guest(const Make& make)
      -> std::optional<decltype(make(std::declval<reprise::Guest&>()))> {
    try {
      reprise::Guest guest =
          reprise::attach(address, {.timeout = std::chrono::seconds(60), .hook = &until_closing});
      return make(guest);
    } catch (const std::exception&) {
      // Acquire; partner: the conductor's store before it closes.
      if (closing.load(std::memory_order_acquire)) {
        return std::nullopt;
      }
      throw;
    }
  }
  /// Waits until at most half of the writers that the buffer allows are in use. Writers of guests
  /// that left stay while their steps wait for the rate limiter. Returns false if the run ends.
  [[nodiscard]] bool wait_for_free_writers() {
    while (replay.stats().writers > replay.options().max_writers / 2) {
      if (stop.load(std::memory_order_relaxed) || closing.load(std::memory_order_relaxed)) {
        return false;
      }
      if (gate.closed()) {
        gate.park();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  [[nodiscard]] double max_writers() const {
    return static_cast<double>(replay.options().max_writers);
  }

  /// `short_timeout`: the writer waits for room only briefly. If the rate limiter may hold writers,
  /// each writer has a timeout, because it can stand still for a check only between calls.
  [[nodiscard]] reprise::WriterOptions writer_options(bool short_timeout, WaitWatch& watch) const;
  [[nodiscard]] static reprise::SamplerOptions sampler_options(std::uint64_t seed, float fresh);

  /// Hook that ends a guest's wait for its host once the buffer is being closed.
  struct UntilClosing final : reprise::WaitHook {
    explicit UntilClosing(const std::atomic<bool>& is) : closing(is) {}
    bool keep_waiting(std::chrono::nanoseconds /*waited*/) noexcept override {
      return !closing.load(std::memory_order_relaxed);
    }
    const std::atomic<bool>& closing;
  };

  const Options& options;
  const Strategies strategies;
  const WindowRule windows;
  const Episodes& episodes;
  const World world;
  Findings& findings;
  reprise::ReplayBuffer replay;
  /// Number of rows in the chunks of all shards. The slot of a key is below it.
  const std::size_t slots;
  const std::size_t slots_per_shard;
  Turns samplers, writers;  ///< Waits of samplers and writers for the rate limiter.
  Turns guests;             ///< Waits of guests for their host, which no check uses.
  std::string address;      ///< The address at which guests attach.
  DrawCounts draw_counts;
  Arrivals arrivals;
  Gate gate;
  std::atomic<bool> stop = false;     ///< Threads finish their episode or batch, then end.
  std::atomic<bool> closing = false;  ///< `close` was called, or is about to be.
  UntilClosing until_closing{closing};
  /// Whether episodes may end early: by `close`, or because a writer that the rate limiter holds
  /// has to stop.
  std::atomic<bool> may_cut = false;
  std::atomic<std::uint32_t> next_writer = 0;
  /// The highest policy version that a learner has set. Release; partner: the acquire of a learner
  /// before its draw.
  std::atomic<std::int64_t> version = 0;
  /// Index in kAlphas of the exponent in force. Only the first learner changes it; the conductor
  /// reads it too, while all others stand still. Relaxed: see ActorState.
  std::atomic<std::size_t> exponent = 0;
  std::deque<ActorState> actors;
  std::deque<LearnerState> learners;  ///< The last one is the conductor's.
  /// The priorities that each learner knows; the conductor uses them while all threads stand still.
  std::vector<KnownPriorities> priorities;
};

/// Adds to a counter that only one thread writes.
inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t more) {
  counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

}  // namespace stress
