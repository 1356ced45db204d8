#pragma once

#include "arrivals.hpp"
#include "crew.hpp"
#include "draw_ledger.hpp"
#include "episode.hpp"
#include "findings.hpp"
#include "options.hpp"
#include "reprise_store.hpp"
#include "row.hpp"
#include "shadow.hpp"
#include "strategies.hpp"
#include "window_rule.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace stress {

using Clock = std::chrono::steady_clock;

/// State of one actor for other threads. Its atomics are relaxed: while the actor runs they are
/// only displayed, and while it stands still the gate's mutex orders them.
struct alignas(64) ActorState {
  std::atomic<std::uint64_t> committed = 0;
  std::uint64_t open = 0;     ///< Committed steps whose window is not complete.
  std::uint64_t writers = 0;  ///< Writers alive.
  std::uint64_t lives = 0;
  std::uint64_t exceptions = 0;
};

/// An item whose key a learner keeps for later.
struct KeptKey {
  std::uint64_t key = 0;
  std::uint64_t hash = 0;  ///< Hash of its identity.
};

/// State of one learner for other threads, and its knowledge beyond its own life. Relaxed as in
/// ActorState.
struct alignas(64) LearnerState {
  std::atomic<std::uint64_t> batches = 0;
  std::atomic<std::uint64_t> sampled = 0;
  std::atomic<std::uint64_t> applied = 0;
  std::atomic<std::uint64_t> stale = 0;
  std::uint64_t lives = 0;
  std::vector<KeptKey> kept;
};

/// The objects that the threads of one round share.
struct Scene {
  Scene(const Options& o, const World& w, RepriseStore& s, Findings& f)
      : options(o),
        strategies(strategies_of(o)),
        windows(strategies.window),
        world(w),
        store(s),
        findings(f),
        ledger(s.places(), o.max_times_sampled, strategies.fresh > 0.0F, f),
        arrivals(w, windows, std::max<std::uint64_t>(2 * s.oldest_allowed(), 1U << 17U),
                 s.oldest_allowed()) {}

  /// Reports a commit that says Closed while nobody closes. Acquire; partner: the conductor's store
  /// before it closes.
  void judge(Took took) {
    if (took == Took::Closed && !closing.load(std::memory_order_acquire)) {
      findings.add(Finding::UnexpectedError, "commit says Closed");
    }
  }
  /// Whether an actor gives up what found no room: the run ends, and nobody draws any more.
  [[nodiscard]] bool gives_up() const {
    // Acquire for both; partners: the conductor's stores. Reading the first makes the second
    // visible.
    return strategies.hold_writers() && stop.load(std::memory_order_acquire) &&
           cutting.load(std::memory_order_acquire);
  }

  const Options& options;
  const Strategies strategies;
  const WindowRule windows;
  const World& world;
  RepriseStore& store;
  Findings& findings;
  DrawLedger ledger;
  Arrivals arrivals;
  Gate gate;
  std::atomic<bool> stop = false;     ///< Finish the episode or batch, then leave.
  std::atomic<bool> closing = false;  ///< `close` was or is being called.
  /// Episodes may end early: by `close`, or because a writer that the rate limiter holds has to
  /// stop.
  std::atomic<bool> cutting = false;
  std::atomic<std::uint32_t> next_writer = 0;
  /// Index in kAlphas of the exponent in force. Only the first learner changes it. That learner
  /// reads it, and the conductor while all stand still. Relaxed: see ActorState.
  std::atomic<std::size_t> exponent = 0;
  std::deque<ActorState> actors;
  std::deque<LearnerState> learners;  ///< The last is the conductor's.
  std::vector<Shadow> shadows;  ///< One per learner; the conductor uses them while all stand still.
};

}  // namespace stress
