// Runs one load of actors and learners for bench/scaling, and prints one line of JSON.
//
// reprise-scaling SUBJECT ROWS ACTORS LEARNERS SHARDS STEPS_PER_SECOND SECONDS
//
// SUBJECT is reprise, textbook (the usual buffer with one mutex, textbook.hpp) or copy; with copy,
// ACTORS threads copy blocks of 64 MiB, which shows the bound that memory sets. ROWS is small (76
// bytes, 2^20 of them) or frames (four stacked 84x84 frames, 20,000 steps). Learners draw 512
// items, gather them and update their priorities. STEPS_PER_SECOND is of all actors together; 0: as
// fast as they can.

#include <reprise/reprise.hpp>

#include "measure.hpp"
#include "mutex_waits.hpp"
#include "textbook.hpp"

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <string_view>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;
using bench::kBatch;

struct Rows {
  std::size_t observation;  ///< Bytes of observation that a step adds.
  std::size_t stack;
  std::size_t capacity;
  std::size_t transition_bytes;  ///< Of a transition: both stacks, action, reward and end.
};
constexpr Rows kSmall{32, 1, std::size_t{1} << 20U, 76};
constexpr Rows kFrames{84 * 84, 4, 20'000, 56'460};
constexpr std::size_t kEpisode = 1000;

struct Load {
  std::string_view subject;
  Rows rows;
  std::size_t actors;
  std::size_t learners;
  std::size_t shards;
  double steps_per_second;
  double seconds;
};

/// Makes kSources random rows of `bytes` each, which actors append in turn.
std::vector<std::byte> random_rows(std::size_t bytes) {
  std::vector<std::byte> rows(bytes * bench::kSources);
  bench::Random random(5);
  std::ranges::generate(rows, [&] { return static_cast<std::byte>(random.next()); });
  return rows;
}

class Reprise {
 public:
  explicit Reprise(const Load& load)
      : bytes_(load.rows.observation),
        observation_(schema_.observation<std::uint8_t>("observation", {load.rows.observation})),
        replay_(schema_, {.capacity_steps = load.rows.capacity,
                          .window = reprise::Transitions{.frame_stack = static_cast<std::uint32_t>(
                                                             load.rows.stack)},
                          .selectors = {reprise::Proportional{.alpha = bench::kAlpha,
                                                              .epsilon = bench::kEpsilon}},
                          .shards = load.shards}) {}

  class Actor {
   public:
    explicit Actor(Reprise& subject)
        : subject_(subject),
          writer_(subject.replay_.writer()),
          source_(random_rows(subject.bytes_)) {}
    void append() {
      if (!writer_.in_episode()) {
        writer_.begin_episode();
        std::ranges::fill(writer_.now(subject_.observation_), std::uint8_t{1});
      }
      std::memcpy(writer_.next(subject_.observation_).data(),
                  &source_[step_ % bench::kSources * subject_.bytes_], subject_.bytes_);
      writer_.now(subject_.action_) = 1;
      writer_.now(subject_.reward_) = 1.0F;
      writer_.commit(++step_ % kEpisode == 0 ? reprise::End::Terminated : reprise::End::Continue);
    }

   private:
    Reprise& subject_;
    reprise::Writer writer_;
    const std::vector<std::byte> source_;
    std::size_t step_ = 0;
  };

  class Learner {
   public:
    Learner(Reprise& subject, std::uint64_t seed)
        : subject_(subject),
          // The learner gathers only with its own thread, because the bench counts threads.
          sampler_(subject.replay_.sampler(
              {.seed = seed, .parallel_gather_bytes = std::numeric_limits<std::size_t>::max()})) {}
    void cycle(std::span<const float> priorities) {
      const auto batch = sampler_.sample(kBatch, {.beta = bench::kBeta});
      subject_.replay_.update_priorities(batch->keys(), priorities);
    }

   private:
    Reprise& subject_;
    reprise::Sampler sampler_;
  };

  [[nodiscard]] std::size_t size() const { return replay_.size(); }

 private:
  const std::size_t bytes_;
  reprise::Schema schema_;
  reprise::Observation<std::uint8_t> observation_;
  reprise::ScalarColumn<std::int32_t> action_ = schema_.column<std::int32_t>("action");
  reprise::Reward reward_ = schema_.reward("reward");
  reprise::ReplayBuffer replay_;
};

class Textbook {
 public:
  explicit Textbook(const Load& load)
      : bytes_(load.rows.transition_bytes), buffer_(bytes_, load.rows.capacity) {}

  class Actor {
   public:
    explicit Actor(Textbook& subject) : subject_(subject), source_(random_rows(subject.bytes_)) {}
    void append() {
      subject_.buffer_.add(
          std::span(source_).subspan(++step_ % bench::kSources * subject_.bytes_, subject_.bytes_));
    }

   private:
    Textbook& subject_;
    const std::vector<std::byte> source_;
    std::size_t step_ = 0;
  };

  class Learner {
   public:
    Learner(Textbook& subject, std::uint64_t /*seed*/)
        : subject_(subject), rows_(kBatch * subject.bytes_) {}
    void cycle(std::span<const float> priorities) {
      subject_.buffer_.sample(kBatch, static_cast<double>(bench::kBeta), rows_, weights_, drawn_);
      subject_.buffer_.update(drawn_, priorities);
    }

   private:
    Textbook& subject_;
    std::vector<std::byte> rows_;
    std::array<std::uint32_t, kBatch> drawn_{};
    std::array<float, kBatch> weights_{};
  };

  [[nodiscard]] std::size_t size() const { return buffer_.size(); }

 private:
  const std::size_t bytes_;
  textbook::Buffer buffer_;
};

/// What all threads together did in the measured time. Each thread adds its counts when it ends.
struct Done {
  std::atomic<std::uint64_t> steps = 0;
  std::atomic<std::uint64_t> cycles = 0;
  std::atomic<std::uint64_t> actors_waited_ns = 0;
  std::atomic<std::uint64_t> learners_waited_ns = 0;
};

/// The stages of a run, in this order. Threads read the stage relaxed: they may see it a little
/// late.
enum class Stage : std::uint8_t { Warm, Measure, Stop };

class Run {
 public:
  explicit Run(const Load& load) : load_(load) {}

  /// Calls `once` until the run stops, `per_second` times a second, or without a pause if that is
  /// 0. Adds the calls within the measured time to `count`, and the time for which they waited for
  /// locks to `waited`.
  template <class Once>
  void thread(const Once& once, double per_second, std::atomic<std::uint64_t>& count,
              std::atomic<std::uint64_t>& waited) {
    std::uint64_t calls = 0;
    std::uint64_t before = 0;
    bool measuring = false;
    double due = 0.0;
    auto wake = Clock::now();
    for (Stage stage = Stage::Warm; stage != Stage::Stop;
         stage = stage_.load(std::memory_order_relaxed)) {
      if (stage == Stage::Measure && !measuring) {
        measuring = true;
        before = calls;
        bench::mutex_waits_ns() = 0;
      }
      if (per_second > 0.0 && static_cast<double>(calls) >= due) {
        wake += std::chrono::milliseconds(1);
        std::this_thread::sleep_until(wake);
        due += 1e-3 * per_second;
        continue;
      }
      once();
      ++calls;
      if (measuring && calls == before + 1) {
        counted_.fetch_add(1, std::memory_order_relaxed);
      }
    }
    // Relaxed: the counts are read after this thread is joined.
    count.fetch_add(measuring ? calls - before : 0, std::memory_order_relaxed);
    waited.fetch_add(bench::mutex_waits_ns(), std::memory_order_relaxed);
  }

  template <class Subject>
  void operator()() {
    Subject subject(load_);
    {
      typename Subject::Actor filler(subject);
      while (subject.size() != load_.rows.capacity) {  // size() ingests what was committed.
        for (std::size_t i = 0; i < kEpisode; ++i) {
          filler.append();
        }
      }
    }
    std::deque<std::jthread> threads;
    for (std::size_t i = 0; i < load_.actors; ++i) {
      threads.emplace_back([&] {
        typename Subject::Actor actor(subject);
        thread([&] { actor.append(); }, load_.steps_per_second / static_cast<double>(load_.actors),
               done_.steps, done_.actors_waited_ns);
      });
    }
    for (std::size_t i = 0; i < load_.learners; ++i) {
      threads.emplace_back([&, i] {
        typename Subject::Learner learner(subject, i + 1);
        bench::Priorities priorities;
        thread([&] { learner.cycle(priorities.next()); }, 0.0, done_.cycles,
               done_.learners_waited_ns);
      });
    }
    time(threads.size());
    threads.clear();
    const double actors = static_cast<double>(std::max<std::size_t>(load_.actors, 1)) * took_;
    const double learners = static_cast<double>(std::max<std::size_t>(load_.learners, 1)) * took_;
    std::printf(
        "{\"appends_per_second\": %.1f, \"cycles_per_second\": %.2f, "
        "\"actors_wait_for_locks\": %.6f, \"learners_wait_for_locks\": %.6f}\n",
        static_cast<double>(done_.steps) / took_, static_cast<double>(done_.cycles) / took_,
        1e-9 * static_cast<double>(done_.actors_waited_ns) / actors,
        1e-9 * static_cast<double>(done_.learners_waited_ns) / learners);
  }

  /// Measures the bytes per second that `actors` threads together copy from memory to memory.
  void copy() {
    constexpr std::size_t kBlock = std::size_t{64} << 20U;
    std::deque<std::jthread> threads;
    for (std::size_t i = 0; i < load_.actors; ++i) {
      threads.emplace_back([this] {
        const std::vector<std::byte> from(kBlock, std::byte{1});
        std::vector<std::byte> to(kBlock);
        thread(
            [&] {
              std::memcpy(to.data(), from.data(), kBlock);
              benchmark::DoNotOptimize(to.data());
              benchmark::ClobberMemory();
            },
            0.0, done_.cycles, done_.learners_waited_ns);
      });
    }
    time(threads.size());
    threads.clear();
    std::printf("{\"bytes_per_second\": %.0f}\n",
                static_cast<double>(done_.cycles) * static_cast<double>(kBlock) / took_);
  }

 private:
  /// Starts the measured time, and ends it after load_.seconds, or later if a busy machine has let
  /// some thread make no call until then.
  void time(std::size_t threads) {
    const std::chrono::duration<double> seconds(load_.seconds);
    std::this_thread::sleep_for(seconds / 4);
    const auto start = Clock::now();
    stage_.store(Stage::Measure, std::memory_order_relaxed);
    std::this_thread::sleep_for(seconds);
    while (counted_.load(std::memory_order_relaxed) != threads) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    stage_.store(Stage::Stop, std::memory_order_relaxed);
    took_ = std::chrono::duration<double>(Clock::now() - start).count();
  }

  const Load load_;
  std::atomic<Stage> stage_ = Stage::Warm;
  /// Threads that have made a call within the measured time.
  std::atomic<std::size_t> counted_ = 0;
  double took_ = 0.0;
  Done done_;
};

template <class Number>
Number number(std::string_view text) {
  Number parsed{};
  if (const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
      error != std::errc{} || end != text.data() + text.size()) {
    throw std::invalid_argument("not a number: " + std::string(text));
  }
  return parsed;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string_view> args(argv + 1, argv + argc);
  if (args.size() != 7 || (args[1] != "small" && args[1] != "frames")) {
    throw std::invalid_argument(
        "reprise-scaling SUBJECT small|frames ACTORS LEARNERS SHARDS STEPS_PER_SECOND SECONDS");
  }
  const Load load{.subject = args[0],
                  .rows = args[1] == "small" ? kSmall : kFrames,
                  .actors = number<std::size_t>(args[2]),
                  .learners = number<std::size_t>(args[3]),
                  .shards = number<std::size_t>(args[4]),
                  .steps_per_second = number<double>(args[5]),
                  .seconds = number<double>(args[6])};
  Run run(load);
  if (load.subject == "reprise") {
    run.operator()<Reprise>();
  } else if (load.subject == "textbook") {
    run.operator()<Textbook>();
  } else if (load.subject == "copy") {
    run.copy();
  } else {
    throw std::invalid_argument("SUBJECT is reprise, textbook or copy");
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "reprise-scaling: %s\n", error.what());
  return 2;
}
