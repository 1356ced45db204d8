#include "base/random.hpp"
#include "base/sync.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace reprise::base {
namespace {

/// How often a thread yields and sleeps for a while. Nobody knows beforehand which habit shows a
/// fault, so each phase draws another habit: many short pauses, or few long ones in which other
/// threads do much.
struct Habit {
  std::uint64_t yield_one_in = 0;
  std::uint64_t sleep_one_in = 0;
  std::uint64_t longest_nanoseconds = 0;

  Habit() = default;
  explicit Habit(Random& random) {
    yield_one_in = std::uint64_t{4} << random.next() % 8;
    // A sleep takes at least about as long as the resolution of timers.
    longest_nanoseconds = kShortestSleep << random.next() % 6;
    // The mean cost of sleeping per point, so that long sleeps are rare.
    const std::uint64_t cost = std::uint64_t{16} << random.next() % 6;
    sleep_one_in = longest_nanoseconds / cost;
  }

  static constexpr std::uint64_t kShortestSleep = 60'000;
};

constexpr std::uint32_t kPhase = 2048;  ///< The length of a phase in points.

std::uint64_t seed_of_environment() noexcept {
  const char* const text = std::getenv("REPRISE_SCHEDULE_SEED");
  if (text == nullptr) {
    return 1;
  }
  char* end = nullptr;
  const std::uint64_t seed = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') {
    std::fprintf(stderr, "REPRISE_SCHEDULE_SEED is '%s'; allowed: a whole number\n", text);
    std::abort();
  }
  return seed;
}

/// What all threads share. Relaxed throughout: the members guard no data, and a schedule is changed
/// before the tested threads begin.
struct Global {
  std::atomic<std::uint64_t> seed{seed_of_environment()};
  std::atomic<std::uint64_t> threads{0};
};

/// Never destroyed, so threads may outlive it.
Global& global() noexcept {
  static Global instance;
  return instance;
}

struct Local {
  std::uint64_t number = global().threads.fetch_add(1, std::memory_order_relaxed) << 32U;
  std::uint64_t seed = 0;  ///< The seed that `random` was made with; 0: none yet.
  Random random{0};
  Habit habit;
  std::uint32_t left = 0;  ///< Points left in this phase.
};

Local& local() noexcept {
  thread_local Local instance;
  return instance;
}

}  // namespace

void set_schedule_seed(std::uint64_t seed) noexcept {
  global().seed.store(seed, std::memory_order_relaxed);
}

void set_schedule_thread(std::uint64_t number) noexcept {
  local().number = number;
  local().seed = 0;
}

void schedule_point() noexcept {
  const std::uint64_t seed = global().seed.load(std::memory_order_relaxed);
  if (seed == 0) {
    return;
  }
  Local& mine = local();
  if (mine.seed != seed) {
    mine.seed = seed;
    mine.random = Random(seed ^ Random(mine.number).next());
    mine.left = 0;
  }
  if (mine.left == 0) {
    mine.left = kPhase;
    mine.habit = Habit(mine.random);
  }
  --mine.left;
  const std::uint64_t dice = mine.random.next();
  if (dice % mine.habit.sleep_one_in == 0) {
    std::this_thread::sleep_for(
        std::chrono::nanoseconds((dice >> 32U) % mine.habit.longest_nanoseconds));
  } else if (dice % mine.habit.yield_one_in == 0) {
    std::this_thread::yield();
  }
}

}  // namespace reprise::base
