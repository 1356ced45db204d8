#include "training.hpp"

#include <reprise/reprise.hpp>

#include "agent.hpp"
#include "checkpoints.hpp"
#include "measuring/judge.hpp"
#include "measuring/metrics_server.hpp"
#include "random.hpp"

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <thread>

namespace apex {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr std::size_t kRecentEpisodes = 100;
/// Actors' streams of seeds begin at 0, the judge's at 2^32.
constexpr std::uint64_t kFirstPartStream = std::uint64_t{1} << 48U;

struct Layout {
  reprise::Schema schema;
  Fields fields{.state = schema.observation<float>("state", {LunarLander::kObservations}),
                .action = schema.column<std::int32_t>("action"),
                .reward = schema.reward("reward")};
};

reprise::Options replay_options(const Options& options) {
  const std::size_t writers = options.actors * options.environments;
  // Some steps of every environment, and two batches: enough that neither side sleeps and wakes
  // for every few steps of the other.
  const double slack = 2.0 * static_cast<double>(options.batch) + options.samples_per_insert *
                                                                      options.slack_steps *
                                                                      static_cast<double>(writers);
  return {
      .capacity_steps = options.capacity_steps,
      .window = reprise::Transitions{.n_step = options.n_step, .discount = options.discount},
      .selectors = {reprise::Proportional{.alpha = options.alpha}},
      .rate_limiter = reprise::SampleToInsertRatio{.samples_per_insert = options.samples_per_insert,
                                                   .min_size = options.warmup_steps,
                                                   .error_buffer = slack},
      .max_writers = writers,
  };
}

/// Whoever leaves, by an exception too, ends the waits of all others.
struct CloseOnExit {
  reprise::ReplayBuffer& replay;
  explicit CloseOnExit(reprise::ReplayBuffer& buffer) : replay(buffer) {}
  ~CloseOnExit() { replay.close(); }
  CloseOnExit(const CloseOnExit&) = delete;
  CloseOnExit& operator=(const CloseOnExit&) = delete;
};

/// One training run: the buffer, the learner's thread and the actors' threads.
class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        learner_({LunarLander::kObservations, options.hidden, LunarLander::kActions},
                 options.learner, options.seed) {
    if (!options.resume_path.empty()) {
      past_ = resume(options, replay_, learner_);
      // Neither actors nor judges see again what they saw before.
      options_.seed = stream_seed(options.seed, kFirstPartStream + past_.parts);
    }
    if (options.metrics_port.has_value()) {
      metrics_.emplace(replay_, *options.metrics_port);
      place_.meter = &metrics_->meter();
    }
    checkpointer_.emplace(options, replay_, past_);
    board_.publish(learner_.network());
    threads_.push_back(std::async(std::launch::async, [this] {
      const CloseOnExit close(replay_);
      return learn(place_, learner_, [this] { checkpointer_->offer(learner_); });
    }));
    for (std::size_t i = 0; i < options.actors; ++i) {
      threads_.push_back(std::async(std::launch::async, [this, i] {
        const CloseOnExit close(replay_);
        return Actor(place_, i).run();
      }));
    }
  }

  /// Those given, with the seed of this part of the run.
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const NetworkBoard& board() const { return board_; }
  [[nodiscard]] Scoreboard::Summary scores() const { return scores_.summary(); }
  /// False once a thread has failed; `finish` then throws what it threw.
  [[nodiscard]] bool going_on() const { return !replay_.closed(); }

  [[nodiscard]] Snapshot look() const {
    const reprise::Stats stats = replay_.stats();
    const Scoreboard::Summary summary = scores();
    return {.seconds = past_.seconds + std::chrono::duration<double>(Clock::now() - start_).count(),
            .environment_steps = stats.committed_steps,
            .learner_updates = stats.sampled_batches,
            .resident_steps = stats.resident_steps,
            .episodes = summary.episodes,
            .mean_return = summary.mean};
  }

  /// Stops all threads and accounts for their time.
  void finish(Result& result) {
    replay_.close();
    ReplayTime time;
    for (auto& thread : threads_) {
      time += thread.get();
    }
    checkpointer_->save_last(learner_);
    result.replay = replay_.stats();
    const auto waits =
        result.replay.writers_for_chunk.total + result.replay.writers_for_limiter.total +
        result.replay.samplers_for_items.total + result.replay.samplers_for_limiter.total;
    const auto share = [](std::chrono::nanoseconds part, std::chrono::nanoseconds all) {
      return static_cast<double>(part.count()) / static_cast<double>(all.count());
    };
    result.waiting_share = share(waits, time.wall);
    result.replay_share = share(time.in_replay, time.working);
  }

 private:
  using Clock = std::chrono::steady_clock;

  Options options_;
  Layout layout_;
  reprise::ReplayBuffer replay_{layout_.schema, replay_options(options_)};
  Learner learner_;
  NetworkBoard board_{learner_.network()->shape};
  Scoreboard scores_{kRecentEpisodes};
  std::optional<MetricsServer> metrics_;
  Workplace place_{options_, layout_.fields, replay_, board_, scores_};
  Past past_;
  std::optional<Checkpointer> checkpointer_;
  Clock::time_point start_ = Clock::now();
  std::vector<std::future<ReplayTime>> threads_;  // Joined when destroyed, so after this:
  CloseOnExit close_{replay_};
};

}  // namespace

Result train(const Options& options, const std::function<void(const Snapshot&)>& observe) {
  Run run(options);
  Judge judge(run.options(), run.board());
  Result result;
  const auto look = [&] {
    result.history.push_back(run.look());
    result.seconds = result.history.back().seconds;
    observe(result.history.back());
  };
  while (!result.solved && result.seconds < options.time_limit_seconds && run.going_on()) {
    std::this_thread::sleep_for(kLookEvery);
    result.solved = judge.passed();
    const Scoreboard::Summary recent = run.scores();
    if (!result.solved && recent.full && recent.mean >= options.screen_score) {
      judge.start();
    }
    look();
  }
  run.finish(result);
  if (!result.solved) {
    judge.judge_last();
  }
  result.final_score = judge.final_score();
  result.final_tests = judge.final_tests();
  return result;
}

}  // namespace apex
