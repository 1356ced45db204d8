// W3 and W3P: actor threads append rows that carry their own checksum, as fast as they can (W3) or
// at a pace (W3P), and time each append. One learner draws, checks the rows' checksums, and updates
// the drawn items. Rows have 76 bytes as in W2, in a full buffer of 2^20. An iteration is a cycle
// of the learner.

#include <reprise/reprise.hpp>

#include "fast_clock.hpp"
#include "latency.hpp"
#include "measure.hpp"
#include "textbook.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

namespace {

using bench::FastClock;
using bench::kBatch;

constexpr std::size_t kCapacity = std::size_t{1} << 20U;
constexpr std::uint32_t kEpisode = 100;
constexpr int kWarmUpCycles = 200;

/// The numbers of the actor and of the step, words computed from them, and a hash of all other
/// words.
using State = std::array<std::uint32_t, 8>;

std::uint32_t hash_of(const State& state) {
  std::uint64_t hash = 1;
  for (std::size_t i = 0; i + 1 < state.size(); ++i) {
    hash = (hash ^ state[i]) * 0x9FB21C651E98DF25U;
    hash ^= hash >> 32U;
  }
  return static_cast<std::uint32_t>(hash);
}

State state_of(std::uint32_t actor, std::uint32_t step) {
  State state{actor, step};
  for (std::size_t i = 2; i + 1 < state.size(); ++i) {
    state[i] = state[i - 1] * 0x8DA6B343U + state[i - 2];
  }
  state.back() = hash_of(state);
  return state;
}

/// One step as an actor appends it. It is also a row of the textbook.
struct Row {
  State now;
  State next;
  std::int32_t action;
  float reward;
  float discount;

  Row(std::uint32_t actor, std::uint32_t step, const State& from)
      : now(from),
        next(state_of(actor, step)),
        action(static_cast<std::int32_t>(next[2] % 4)),
        reward(static_cast<float>(next[3] >> 8U)),
        discount(step % kEpisode == 0 ? 0.0F : 0.99F) {}
  Row() = default;

  [[nodiscard]] bool ends_episode() const { return discount == 0.0F; }
};
static_assert(sizeof(Row) == 76);

/// Returns whether the hash of every state matches its words.
bool are_intact(std::span<const std::uint32_t> states) {
  bool good = true;
  for (std::size_t i = 0; i < states.size(); i += std::tuple_size_v<State>) {
    State state;
    std::copy_n(&states[i], state.size(), state.data());
    good = good && hash_of(state) == state.back();
  }
  return good;
}

class RepriseLoad {
 public:
  explicit RepriseLoad(std::size_t actors)
      : replay_(schema_, {.capacity_steps = kCapacity,
                          .selectors = {reprise::Proportional{.alpha = bench::kAlpha,
                                                              .epsilon = bench::kEpsilon}},
                          .max_writers = actors}) {}

  class Writer {
   public:
    explicit Writer(RepriseLoad& load) : load_(load), writer_(load.replay_.writer()) {}
    void append(const Row& row) {
      if (!writer_.in_episode()) {
        writer_.begin_episode();
        std::ranges::copy(row.now, writer_.now(load_.state_).begin());
      }
      writer_.now(load_.action_) = row.action;
      writer_.now(load_.reward_) = row.reward;
      std::ranges::copy(row.next, writer_.next(load_.state_).begin());
      writer_.commit(row.ends_episode() ? reprise::End::Terminated : reprise::End::Continue);
    }

   private:
    RepriseLoad& load_;
    reprise::Writer writer_;
  };

  [[nodiscard]] std::size_t size() const { return replay_.size(); }
  /// Draws a batch, updates its priorities and checks its rows. Returns false if a row was torn:
  /// parts of it are of two different steps.
  bool cycle(std::span<const float> priorities) {
    const auto batch = sampler_.sample(kBatch, {.beta = bench::kBeta});
    replay_.update_priorities(batch->keys(), priorities);
    return are_intact(batch->now(state_)) && are_intact(batch->next(state_));
  }

 private:
  reprise::Schema schema_;
  reprise::Observation<std::uint32_t> state_ =
      schema_.observation<std::uint32_t>("state", {std::tuple_size_v<State>});
  reprise::ScalarColumn<std::int32_t> action_ = schema_.column<std::int32_t>("action");
  reprise::Reward reward_ = schema_.reward("reward");
  reprise::ReplayBuffer replay_;
  reprise::Sampler sampler_ = replay_.sampler({.seed = 1});
};

class TextbookLoad {
 public:
  explicit TextbookLoad(std::size_t /*actors*/) : buffer_(sizeof(Row), kCapacity), rows_(kBatch) {}

  class Writer {
   public:
    explicit Writer(TextbookLoad& load) : load_(load) {}
    void append(const Row& row) { load_.buffer_.add(std::as_bytes(std::span(&row, 1))); }

   private:
    TextbookLoad& load_;
  };

  [[nodiscard]] std::size_t size() const { return buffer_.size(); }
  bool cycle(std::span<const float> priorities) {
    buffer_.sample(kBatch, static_cast<double>(bench::kBeta),
                   std::as_writable_bytes(std::span(rows_)), weights_, drawn_);
    buffer_.update(drawn_, priorities);
    return std::ranges::all_of(
        rows_, [](const Row& row) { return are_intact(row.now) && are_intact(row.next); });
  }

 private:
  textbook::Buffer buffer_;
  std::vector<Row> rows_;
  std::array<std::uint32_t, kBatch> drawn_{};
  std::array<float, kBatch> weights_{};
};

/// The thread of one actor, which runs from construction to destruction.
template <class Load>
class Actor {
 public:
  /// With `steps_per_ms` 0 it appends as fast as it can; otherwise it wakes every millisecond and
  /// appends the steps that are due.
  Actor(Load& load, std::uint32_t number, double steps_per_ms)
      : thread_([this, &load, number, steps_per_ms](const std::stop_token& stop) {
          run(load, number, steps_per_ms, stop);
        }) {}

  /// Starts the timing of appends. Relaxed: which append is timed first does not matter.
  void begin() { timing_.store(true, std::memory_order_relaxed); }
  /// Stops the thread; afterwards the caller may read the latencies.
  const bench::Latency& end() {
    thread_.request_stop();
    thread_.join();
    return latency_;
  }

 private:
  void run(Load& load, std::uint32_t number, double steps_per_ms, const std::stop_token& stop) {
    typename Load::Writer writer(load);
    State state = state_of(number, 0);
    double due = 0.0;
    auto wake = std::chrono::steady_clock::now();
    auto last = FastClock::now();
    for (std::uint32_t step = 1; !stop.stop_requested(); ++step) {
      while (steps_per_ms > 0.0 && static_cast<double>(step) > due && !stop.stop_requested()) {
        wake += std::chrono::milliseconds(1);
        std::this_thread::sleep_until(wake);
        due += steps_per_ms;
        last = FastClock::now();
      }
      const Row row(number, step, state);
      writer.append(row);
      state = row.next;
      const auto now = FastClock::now();
      if (timing_.load(std::memory_order_relaxed)) {
        latency_.add(now - last);
      }
      last = now;
    }
  }

  std::atomic<bool> timing_ = false;
  bench::Latency latency_;
  std::jthread thread_;  // Declared last, because the thread uses the members above.
};

void report(benchmark::State& state, const std::string& what, const bench::Latency& latency) {
  constexpr std::pair<const char*, double> kShares[] = {{"_p50_ns", 0.5},
                                                        {"_p90_ns", 0.9},
                                                        {"_p99_ns", 0.99},
                                                        {"_p999_ns", 0.999},
                                                        {"_p9999_ns", 0.9999}};
  for (const auto& [name, share] : kShares) {
    state.counters[what + name] = latency.quantile_ns(share);
  }
}

template <class Load>
void fill(Load& load) {
  typename Load::Writer writer(load);
  State state = state_of(0, 0);
  for (std::uint32_t step = 1; load.size() != kCapacity; ++step) {
    const Row row(0, step, state);
    writer.append(row);
    state = row.next;
  }
}

/// The benchmark's arguments are the number of actors, and the steps per second of all actors
/// together; 0: as fast as they can.
template <class Load>
void load(benchmark::State& state) {
  const auto actors = static_cast<std::size_t>(state.range(0));
  auto& subject = bench::prepared<Load>(actors);
  fill(subject);
  bench::Priorities priorities;
  std::deque<Actor<Load>> running;
  for (std::uint32_t actor = 0; actor < actors; ++actor) {
    running.emplace_back(subject, actor,
                         1e-3 * static_cast<double>(state.range(1)) / static_cast<double>(actors));
  }
  bool good = true;
  for (int i = 0; i < kWarmUpCycles; ++i) {
    good = subject.cycle(priorities.next()) && good;
  }
  bench::Latency batch;
  std::ranges::for_each(running, &Actor<Load>::begin);
  const auto start = FastClock::now();
  auto last = start;
  for (auto _ : state) {
    good = subject.cycle(priorities.next()) && good;
    const auto now = FastClock::now();
    batch.add(now - last);
    last = now;
  }
  const std::chrono::duration<double> took = FastClock::now() - start;
  bench::Latency append;
  for (Actor<Load>& actor : running) {
    append.merge(actor.end());
  }
  if (!good) {
    state.SkipWithError("a torn row");
  }
  state.counters["appends_per_second"] = static_cast<double>(append.count()) / took.count();
  state.counters["batches_per_second"] = static_cast<double>(batch.count()) / took.count();
  report(state, "append", append);
  report(state, "batch", batch);
}

void loads(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t actors : {1, 2, 4, 8, 16}) {
    benchmark->Args({actors, 0});
  }
  benchmark->Args({4, 50'000})->Args({4, 1'000'000})->UseRealTime()->MinTime(3.0);
}

BENCHMARK_TEMPLATE(load, RepriseLoad)->Name("W3/reprise")->Apply(loads);
BENCHMARK_TEMPLATE(load, TextbookLoad)->Name("W3/textbook")->Apply(loads);

}  // namespace
