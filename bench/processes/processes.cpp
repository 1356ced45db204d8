// Runs one load of processes that share a buffer for bench/processes/run, and prints one line of
// JSON.
//
// reprise-processes ROWS WRITERS RATE LEARNER SECONDS
//
// ROWS is small (76 bytes), vectors (such rows, 64 environments per call) or frames (84x84 bytes a
// step, four of them stacked). WRITERS processes append RATE steps/s each; 0: as fast as they can.
// LEARNER draws 512 items and updates their priorities again and again: host (a thread of the
// process that has the buffer), rank (another process) or none.

#include <reprise/guest.hpp>
#include <reprise/host.hpp>

#include "load/fast_clock.hpp"
#include "load/latency.hpp"
#include "measure.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using bench::FastClock;
using Seconds = std::chrono::duration<double>;
constexpr std::size_t kEpisode = 1'000;

struct Load {
  std::string_view rows;
  std::size_t writers;
  double rate;
  std::string_view learner;
  Seconds seconds;

  [[nodiscard]] bool frames() const { return rows == "frames"; }
  [[nodiscard]] std::size_t environments() const { return rows == "vectors" ? 64 : 1; }
  [[nodiscard]] std::size_t bytes() const { return frames() ? 84 * 84 : 32; }
  [[nodiscard]] std::size_t capacity() const { return frames() ? 20'000 : std::size_t{1} << 20U; }
};

/// Results of one process.
struct Measured {
  std::uint64_t steps = 0;
  std::uint64_t cycles = 0;
  double seconds = 0.0;
  bench::Latency latency;  ///< Latency of each append, or of each learner's cycle.
};

struct Steps {
  explicit Steps(const Load& load)
      : observation(schema.observation<std::uint8_t>("observation", {load.bytes()})),
        action(schema.column<std::int32_t>("action")),
        reward(schema.reward("reward")) {}

  reprise::Schema schema;
  reprise::Observation<std::uint8_t> observation;
  reprise::ScalarColumn<std::int32_t> action;
  reprise::Reward reward;
};

/// A writer's process: attaches to the buffer and appends until the time is over.
Measured append(const Load& load, const std::string& address) {
  reprise::Guest guest = reprise::attach(address);
  const Steps fields(load);
  const std::size_t environments = load.environments();
  reprise::VectorWriter writers = guest.vector_writer(environments);
  std::vector<std::vector<std::uint8_t>> observations(
      bench::kSources, std::vector<std::uint8_t>(environments * load.bytes()));
  bench::Random random(3);
  for (auto& one : observations) {
    std::ranges::generate(one, [&] { return static_cast<std::uint8_t>(random.next()); });
  }
  const std::vector<std::int32_t> actions(environments, 1);
  const std::vector<float> rewards(environments, 1.0F);
  std::vector<reprise::End> ends(environments);
  writers.now(fields.observation, observations[0]);
  Measured measured;
  const auto pause = std::chrono::duration_cast<FastClock::duration>(
      Seconds(load.rate > 0.0 ? static_cast<double>(environments) / load.rate : 0.0));
  const auto start = FastClock::now();
  auto next = start;
  for (std::uint64_t t = 0; FastClock::now() - start < load.seconds; ++t) {
    while (load.rate > 0.0 && FastClock::now() < next) {
      std::this_thread::yield();
    }
    next += pause;
    std::ranges::fill(
        ends, t % kEpisode == kEpisode - 1 ? reprise::End::Terminated : reprise::End::Continue);
    const auto before = FastClock::now();
    writers.now(fields.action, actions);
    writers.now(fields.reward, rewards);
    writers.next(fields.observation, observations[t % bench::kSources]);
    writers.commit(ends);
    measured.latency.add(FastClock::now() - before);
    writers.now(fields.observation, observations[(t + 1) % bench::kSources]);
    measured.steps += environments;
  }
  measured.seconds = Seconds(FastClock::now() - start).count();
  return measured;
}

/// Draws from `sampler` and updates priorities again and again, until the time is over or `end` is
/// set.
template <class Source>
Measured learn(Source sampler, Seconds seconds, const std::atomic<bool>& end) {
  Measured measured;
  std::vector<float> errors(bench::kBatch);
  bench::Random random(9);
  const auto start = FastClock::now();
  while (!end.load(std::memory_order_relaxed) && FastClock::now() - start < seconds) {
    const auto before = FastClock::now();
    const reprise::SampleResult batch =
        sampler.sample(bench::kBatch, {.timeout = std::chrono::seconds(10)});
    if (!batch) {
      break;
    }
    std::ranges::generate(errors,
                          [&] { return static_cast<float>(random.next() >> 40U) * 0x1p-24F; });
    sampler.update_priorities(batch->keys(), errors);
    measured.latency.add(FastClock::now() - before);
    ++measured.cycles;
  }
  measured.seconds = Seconds(FastClock::now() - start).count();
  return measured;
}

/// A forked process, which sends back its results through a pipe.
class Child {
 public:
  explicit Child(const std::function<Measured()>& work) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0 || (process_ = ::fork()) < 0) {
      std::perror("reprise-processes");
      std::exit(1);
    }
    if (process_ == 0) {
      int failed = 1;
      try {
        const Measured measured = work();
        failed = ::write(ends[1], &measured, sizeof(measured)) == sizeof(measured) ? 0 : 1;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "reprise-processes: %s\n", error.what());
      }
      ::_exit(failed);
    }
    ::close(ends[1]);
    result_ = ends[0];
  }
  [[nodiscard]] Measured wait() const {
    Measured measured;
    auto* const to = reinterpret_cast<char*>(&measured);
    std::size_t got = 0;
    for (ssize_t more = 1; got < sizeof(measured) && more > 0;
         got += static_cast<std::size_t>(std::max<ssize_t>(more, 0))) {
      more = ::read(result_, to + got, sizeof(measured) - got);
    }
    ::waitpid(process_, nullptr, 0);
    if (got != sizeof(measured)) {
      std::exit(1);
    }
    return measured;
  }

 private:
  pid_t process_ = 0;
  int result_ = -1;
};

void print_latency(const char* name, const bench::Latency& latency) {
  std::printf(", \"%s\": {\"p50\": %.3f, \"p99\": %.3f, \"p999\": %.3f}", name,
              latency.quantile_ns(0.5) / 1e3, latency.quantile_ns(0.99) / 1e3,
              latency.quantile_ns(0.999) / 1e3);
}

/// Appends steps until the buffer is full.
void fill(reprise::Writer& writer, const Steps& fields, std::size_t steps) {
  for (std::size_t t = 0; t < steps; ++t) {
    if (!writer.in_episode()) {
      writer.begin_episode();
      std::ranges::fill(writer.now(fields.observation), std::uint8_t{1});
    }
    std::ranges::fill(writer.next(fields.observation), static_cast<std::uint8_t>(t));
    writer.now(fields.action) = 1;
    writer.now(fields.reward) = 1.0F;
    writer.commit(t % kEpisode == kEpisode - 1 ? reprise::End::Terminated : reprise::End::Continue);
  }
}

/// Waits for all writers. Returns their steps, with the time of the slowest.
Measured wait_for_all(const std::vector<Child>& writers) {
  Measured appends;
  for (const Child& writer : writers) {
    const Measured one = writer.wait();
    appends.steps += one.steps;
    appends.latency.merge(one.latency);
    appends.seconds = std::max(appends.seconds, one.seconds);
  }
  return appends;
}

/// `taken`: the steps that the host's buffer has taken.
void print(const Measured& appends, const Measured& cycles, std::uint64_t taken) {
  const auto steps = static_cast<double>(appends.steps);
  std::printf("{\"steps_per_second\": %.0f, \"taken\": %.3f, \"cycles_per_second\": %.1f",
              appends.seconds > 0.0 ? steps / appends.seconds : 0.0,
              appends.steps != 0 ? static_cast<double>(taken) / steps : 1.0,
              cycles.seconds > 0.0 ? static_cast<double>(cycles.cycles) / cycles.seconds : 0.0);
  print_latency("append_us", appends.latency);
  print_latency("cycle_us", cycles.latency);
  std::printf("}\n");
}

void run(const Load& load) {
  const std::string address = "@reprise-processes-" + std::to_string(::getpid());
  std::atomic<bool> end{false};
  std::vector<Child> writers;  // Forked while this process has a single thread.
  for (std::size_t w = 0; w < load.writers; ++w) {
    writers.emplace_back([&] { return append(load, address); });
  }
  std::vector<Child> ranks;
  if (load.learner == "rank") {
    ranks.emplace_back([&] {
      reprise::Guest guest = reprise::attach(address);
      return learn(guest.sampler({.seed = 1}), load.seconds, end);
    });
  }
  const Steps fields(load);
  reprise::ReplayBuffer replay(
      fields.schema,
      {.capacity_steps = load.capacity(),
       .window = reprise::Transitions{.frame_stack = load.frames() ? 4U : 1U},
       .selectors = {reprise::Proportional{.alpha = bench::kAlpha, .epsilon = bench::kEpsilon}},
       .max_writers = 1'024});
  reprise::Writer host_writer = replay.writer();
  fill(host_writer, fields, load.capacity());
  const std::uint64_t before = replay.stats().committed_steps;
  reprise::Host host(replay, {.address = address});
  const std::jthread serving([&](const std::stop_token& stop) { host.run(stop); });
  Measured cycles;
  std::jthread learner;
  if (load.learner == "host") {
    learner = std::jthread([&] {
      cycles =
          learn(replay.sampler({.seed = 1}), load.writers == 0 ? load.seconds : Seconds(1e9), end);
    });
  }
  const Measured appends = wait_for_all(writers);
  for (const Child& rank : ranks) {
    cycles = rank.wait();
  }
  end = load.writers != 0;
  if (learner.joinable()) {
    learner.join();
  }
  print(appends, cycles, replay.stats().committed_steps - before);
}

}  // namespace

int main(int count, char** given) {
  if (count != 6) {
    std::fprintf(stderr,
                 "usage: reprise-processes small|vectors|frames WRITERS RATE host|rank|none "
                 "SECONDS\n");
    return 2;
  }
  try {
    run({.rows = given[1],
         .writers = std::strtoul(given[2], nullptr, 10),
         .rate = std::strtod(given[3], nullptr),
         .learner = given[4],
         .seconds = Seconds(std::strtod(given[5], nullptr))});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise-processes: %s\n", error.what());
    return 1;
  }
  return 0;
}
