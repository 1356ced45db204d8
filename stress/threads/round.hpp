#pragma once

#include <reprise/host.hpp>

#include "checks/account_check.hpp"
#include "checks/residence_check.hpp"
#include "program/live_line.hpp"
#include "program/schedule.hpp"
#include "program/tally.hpp"
#include "testing/library.hpp"
#include "threads/actor.hpp"
#include "threads/checkpoints.hpp"
#include "threads/learner.hpp"
#include "threads/shared.hpp"
#include "threads/vector_actor.hpp"

namespace stress {

/// How a churn ends: its threads are stopped, or the buffer is closed under them.
enum class ChurnEnd : std::uint8_t { Stop, Close };

/// One buffer from its first step to its end, and the threads that use it.
class Round {
 public:
  Round(const Options& options, std::uint32_t number, Tally& tally, LiveLine& live)
      : options_(options),
        episodes_(options.seed, options.churn, number),
        shared_(options_, episodes_, tally.findings),
        account_(shared_),
        residence_(shared_, tally.residence),
        checkpoints_(shared_),
        tally_(tally),
        live_(live) {
    if (options_.guests != 0) {
      host_.emplace(shared_.replay, reprise::HostOptions{.ring_steps = 8});
      shared_.address = host_->address();
      serve();
    }
    shared_.actors.resize(options_.actors);
    shared_.learners.resize(options_.learners + 1);
    shared_.priorities.assign(std::max<std::size_t>(options_.learners, 1),
                              KnownPriorities(shared_.slots));
  }

  /// Fills the buffer and warms up, then measures. From time to time all threads stand still for
  /// checks.
  void run_steady() {
    start_actors();
    start_saving();
    const auto full = [this] { return committed() >= options_.capacity_steps; };
    if (shared_.strategies.may_hold_writers()) {
      start_learners();
      wait_until(full, kLongestWarmUp);
    } else {
      wait_until(full, Clock::duration::max());
      start_learners();
    }
    const auto warm = [this] {
      return std::all_of(shared_.learners.begin(), shared_.learners.end() - 1,
                         [](const LearnerState& l) { return l.batches >= kWarmUpBatches; });
    };
    wait_until(warm, kLongestWarmUp);
    Learner conductor(shared_, options_.learners);
    check_quiescent_point(conductor);

    auto left = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(options_.seconds));
    while (left > Clock::duration::zero()) {
      left -= measure(std::min<Clock::duration>(left, kStillEvery));
      check_quiescent_point(conductor);
    }
    stop();
    finish(&conductor);
  }

  /// Lets threads come and go for a while, then ends it.
  void run_churn(Clock::duration length, ChurnEnd end, Rng& rng) {
    start_actors();
    start_learners();
    start_saving();
    Learner conductor(shared_, options_.learners);
    while (length > Clock::duration::zero()) {
      const std::chrono::milliseconds some(1 + rng.below(60));
      length -= measure(std::min<Clock::duration>(length, some));
      if (length > Clock::duration::zero() || end == ChurnEnd::Stop) {
        check_quiescent_point(conductor);
      }
    }
    if (end == ChurnEnd::Stop) {
      stop();
      finish(&conductor);
    } else {
      close();
    }
  }

 private:
  static constexpr std::uint64_t kWarmUpBatches = 200;
  static constexpr std::chrono::seconds kLongestWarmUp{5};
  static constexpr std::chrono::milliseconds kStillEvery{250};
  static constexpr std::chrono::milliseconds kTick{20};
  /// Only a hang takes this long, even with a sanitizer on a busy machine.
  static constexpr std::chrono::seconds kPatience{120};

  /// Closes the buffer under the threads. Release for both; partners as in `stop`.
  void close() {
    shared_.may_cut.store(true, std::memory_order_release);
    shared_.closing.store(true, std::memory_order_release);
    const Clock::time_point closed_at = Clock::now();
    shared_.replay.close();
    finish(nullptr);
    const std::chrono::duration<double, std::milli> took = Clock::now() - closed_at;
    tally_.longest_close_ms = std::max(tally_.longest_close_ms, took.count());
    ++tally_.closes;
  }

  /// Ends the run. If the limiter holds writers, episodes are cut off, because writers could not
  /// finish them once no learner draws. Release for both; partners: the loads in `Shared` and
  /// `WindowCheck`.
  void stop() {
    if (shared_.strategies.may_hold_writers()) {
      shared_.may_cut.store(true, std::memory_order_release);
    }
    shared_.stop.store(true, std::memory_order_release);
  }

  void serve() {
    if (host_) {
      serving_ = std::jthread([this](const std::stop_token& stop) {
        try {
          host_->run(stop);
        } catch (const std::exception& error) {
          shared_.findings.add(Finding::UnexpectedError, error.what());
        }
      });
    }
  }
  /// Stops serving guests. Unless the limiter holds writers, it first waits until the buffer has
  /// all steps that guests committed, and until the writers of guests that left are gone.
  void stop_serving() {
    const Clock::time_point end = Clock::now() + kPatience;
    while (host_ && !shared_.strategies.may_hold_writers() && !guest_steps_taken()) {
      if (Clock::now() > end) {
        abort_hung(shared_.findings, "a host does not take what guests have committed");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    serving_ = {};
  }
  [[nodiscard]] bool guest_steps_taken() const {
    std::uint64_t writers = 0;
    for (const ActorState& actor : shared_.actors) {
      writers += actor.writers;
    }
    const reprise::Stats stats = shared_.replay.stats();
    return stats.committed_steps >= committed() && stats.writers <= writers;
  }

  void start_actors() {
    for (std::size_t a = 0; a < options_.actors; ++a) {
      start_actor(a);
    }
  }
  void start_actor(std::size_t a) {
    start_lives(a + 1, [this, a] {
      return options_.environments != 0 ? VectorActor(shared_, a).run_life()
                                        : Actor(shared_, a).run_life();
    });
  }
  void start_learners() {
    for (std::size_t l = 0; l < options_.learners; ++l) {
      start_lives(options_.actors + l + 1, [this, l] { return Learner(shared_, l).run_life(); });
    }
  }

  void start_saving() {
    if (!options_.checkpoint_path.empty()) {
      threads_.start([this] { checkpoints_.save_repeatedly(); });
    }
  }

  /// Starts a thread that runs one life after another, each on a thread of its own, until a life
  /// returns false. `part` numbers all actors and learners from 1; 0 is the conductor.
  template <class Life>
  void start_lives(std::size_t part, Life life) {
    threads_.start([this, part, life] {
      bool go_on = true;
      for (std::uint32_t number = 0; go_on && !shared_.stop.load(std::memory_order_relaxed);
           ++number) {
        std::thread thread([this, part, number, life, &go_on] {
          enter_schedule(static_cast<std::uint32_t>(part), episodes_.round(), number);
          try {
            go_on = life();
          } catch (const std::exception& error) {
            shared_.findings.add(Finding::UnexpectedError, error.what());
            go_on = false;
          }
        });
        thread.join();
      }
    });
  }

  [[nodiscard]] std::uint64_t committed() const {
    std::uint64_t sum = 0;
    for (const ActorState& actor : shared_.actors) {
      sum += actor.committed.load(std::memory_order_relaxed);
    }
    return sum;
  }
  [[nodiscard]] std::uint64_t batches() const {
    std::uint64_t sum = 0;
    for (std::size_t l = 0; l < options_.learners; ++l) {
      sum += shared_.learners[l].batches.load(std::memory_order_relaxed);
    }
    return sum;
  }

  template <class Condition>
  void wait_until(Condition condition, Clock::duration longest) {
    const Clock::time_point start = Clock::now();
    std::uint64_t seen = 0;
    Clock::time_point moved = start;
    while (!condition() && Clock::now() - start < longest) {
      std::this_thread::sleep_for(kTick);
      show();
      const std::uint64_t now = committed() + batches();
      moved = now != seen ? Clock::now() : moved;
      seen = now;
      if (Clock::now() - moved > kPatience) {
        abort_hung(shared_.findings, "nothing is appended nor sampled");
      }
    }
  }

  /// Adds the work of the next `length` to the tally, and returns how long that took.
  Clock::duration measure(Clock::duration length) {
    const Clock::time_point start = Clock::now();
    const std::uint64_t committed_before = committed();
    const std::uint64_t batches_before = batches();
    const Clock::time_point end = start + length;
    for (Clock::time_point now = start; now < end; now = Clock::now()) {
      std::this_thread::sleep_until(std::min(end, now + kTick));
      residence_.check_while_running();
      show();
    }
    tally_.appends += committed() - committed_before;
    tally_.batches += batches() - batches_before;
    const Clock::duration took = Clock::now() - start;
    tally_.seconds += std::chrono::duration<double>(took).count();
    return took;
  }

  void show() {
    if (live_.due()) {
      live_.show({committed(), batches(), shared_.replay.stats().resident_steps,
                  shared_.findings.violations()});
    }
  }

  /// Makes all threads stand still, and checks that the counts are exact and the draws right.
  void check_quiescent_point(Learner& conductor) {
    if (!shared_.gate.close(kPatience)) {
      abort_hung(shared_.findings, "a thread does not return from its call");
    }
    stop_serving();
    residence_.check_quiescent(verify(conductor));
    serve();
    shared_.gate.open();
  }

  reprise::Stats verify(Learner& conductor) {
    // check_limit comes first, because the conductor's draws make room and would hide an excess.
    // stats() ingests everything, because steps that are ingested after a draw could evict the
    // items drawn.
    account_.check_limit(shared_.stats());
    conductor.check_whole_order();
    static_cast<void>(conductor.cycle());
    // The second cycle checks the priorities that the first one wrote.
    const Learner::Code code = conductor.cycle();
    const reprise::Stats stats = shared_.stats();
    account_.check(stats, Ingested::All);
    ++tally_.quiescent_points;
    if (!options_.checkpoint_path.empty()) {
      checkpoints_.check_quiescent(conductor, code, stats);
    }
    return stats;
  }

  void join(const char* finding) {
    if (!threads_.join(kPatience)) {
      abort_hung(shared_.findings, finding);
    }
  }

  /// Appends with a single actor until all items that the buffer has now are evicted. Returns false
  /// without appending if the limiter could hold the actor, or the actor is a guest.
  bool append_alone() {
    if (shared_.strategies.may_hold_writers() || shared_.is_guest_actor(0)) {
      return false;
    }
    const std::uint64_t enough = shared_.arrivals.count() + shared_.max_item_age();
    shared_.stop.store(false, std::memory_order_relaxed);
    start_actor(0);
    wait_until([&] { return shared_.arrivals.count() >= enough; }, Clock::duration::max());
    stop();
    join("an actor that is alone does not end");
    return true;
  }

  /// Joins all threads and makes the last checks; `conductor` is null if the buffer was closed.
  void finish(Learner* conductor) {
    join(conductor == nullptr ? "a thread does not end after close()" : "a thread does not end");
    if (conductor == nullptr && serving_.joinable()) {
      serving_.join();  // Nobody asks this thread to stop, as it ends with the buffer.
    }
    residence_.check_all_turns();
    if (conductor != nullptr) {
      stop_serving();
      verify(*conductor);
      const LastAppends last = append_alone() ? LastAppends::OfOneThread : LastAppends::OfMany;
      residence_.check_at_end(verify(*conductor), last);
    }
    const reprise::Stats stats = shared_.stats();
    account_.check(stats, conductor != nullptr ? Ingested::All : Ingested::NotAll);
    tally_.add(stats);
    ++tally_.rounds;
    for (const ActorState& actor : shared_.actors) {
      tally_.actor_lives += actor.lives;
      tally_.exceptions += actor.exceptions;
    }
    tally_.checkpoints += checkpoints_.saved;
    tally_.checkpoint_items += checkpoints_.items;
    tally_.checkpoint_keys += checkpoints_.keys;
    for (std::size_t l = 0; l < options_.learners; ++l) {
      tally_.learner_lives += shared_.learners[l].lives;
    }
  }

  const Options options_;
  const Episodes episodes_;
  Shared shared_;
  AccountCheck account_;
  ResidenceCheck residence_;
  Checkpoints checkpoints_;
  Tally& tally_;
  LiveLine& live_;
  std::optional<reprise::Host> host_;  ///< Empty without guests.
  Threads threads_;
  std::jthread serving_;
};

}  // namespace stress
