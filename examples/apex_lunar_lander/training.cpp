#include "training.hpp"

#include <reprise/reprise.hpp>

#include "actor.hpp"
#include "learner.hpp"
#include "tensor_threads.hpp"

#include <chrono>
#include <future>
#include <utility>

namespace apex {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr std::size_t kRecentEpisodes = 100;
constexpr std::size_t kScreeningEpisodes = 20;
constexpr std::size_t kFinalEpisodes = 100;

struct Setup {
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

ReplayTime learn(const Workplace& place, Learner& learner, ParameterBoard& board) {
  use_one_tensor_thread();
  const Options& options = place.options;
  const Fields& fields = place.fields;
  reprise::Sampler sampler = place.replay.sampler({.seed = options.seed});
  ReplayClock clock(options.seed);
  const auto sample = [&] {
    const auto timed = clock.block();
    return sampler.sample(options.batch, {.beta = options.beta});
  };
  std::size_t updates = 0;
  while (const auto batch = sample()) {
    const std::span<const float> errors = learner.step(
        batch->now(fields.state), batch->now(fields.action), batch->returns(fields.reward),
        batch->discounts(), batch->next(fields.state), batch->weights());
    {
      const auto timed = clock.block();
      place.replay.update_priorities(batch->keys(), errors);
    }
    if (++updates % options.publish_updates == 0) {
      board.publish(learner.parameters());
    }
  }
  return clock.time();
}

/// Judges published parameters on fresh seeds, in the calling thread, while training goes on.
class Judge {
 public:
  Judge(const Options& options, const NetworkShape& shape, const ParameterBoard& board)
      : options_(options), board_(board), network_(shape), seeds_(options.seed) {}

  /// True if the newest parameters pass screening and final test.
  bool passes() {
    if (!board_.fetch(network_.parameters(), version_)) {
      return false;
    }
    if (evaluate(network_, seeds_, kScreeningEpisodes).mean < options_.screen_score) {
      return false;
    }
    run_final_test();
    return score_.mean >= options_.target_score;
  }

  /// Where nothing passed: what the last parameters are worth.
  void judge_last() {
    board_.fetch(network_.parameters(), version_);
    run_final_test();
  }

  [[nodiscard]] const Score& final_score() const { return score_; }
  [[nodiscard]] std::size_t final_tests() const { return final_tests_; }

 private:
  void run_final_test() {
    score_ = evaluate(network_, seeds_, kFinalEpisodes);
    ++final_tests_;
  }

  const Options& options_;
  const ParameterBoard& board_;
  ActorNetwork network_;
  std::uint64_t version_ = 0;
  FreshSeeds seeds_;
  Score score_;
  std::size_t final_tests_ = 0;
};

void account(Result& result, const ReplayTime& time) {
  const reprise::Stats& stats = result.replay;
  const auto waits = stats.writers_for_chunk.total + stats.writers_for_limiter.total +
                     stats.samplers_for_items.total + stats.samplers_for_limiter.total;
  const auto share = [](std::chrono::nanoseconds part, std::chrono::nanoseconds all) {
    return static_cast<double>(part.count()) / static_cast<double>(all.count());
  };
  result.waiting_share = share(waits, time.wall);
  result.replay_share = share(time.in_replay, time.working);
}

}  // namespace

Result train(const Options& options, const std::function<void(const Snapshot&)>& observe) {
  const NetworkShape shape{LunarLander::kObservations, options.hidden, LunarLander::kActions};
  const Setup setup;
  reprise::ReplayBuffer replay(setup.schema, replay_options(options));
  ParameterBoard board;
  Scoreboard scores(kRecentEpisodes);
  const Workplace place{options, setup.fields, replay, board, scores};
  Learner learner(shape, options.learner, options.seed);
  board.publish(learner.parameters());

  const auto start = Clock::now();
  std::vector<std::future<ReplayTime>> threads;
  threads.push_back(std::async(std::launch::async, [&] { return learn(place, learner, board); }));
  for (std::size_t i = 0; i < options.actors; ++i) {
    threads.push_back(
        std::async(std::launch::async, [&, i] { return Actor(place, shape, i).run(); }));
  }

  Result result;
  Judge judge(options, shape, board);
  const auto look = [&] {
    const reprise::Stats stats = replay.stats();
    const Scoreboard::Summary summary = scores.summary();
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    result.history.push_back({.seconds = result.seconds,
                              .environment_steps = stats.committed_steps,
                              .learner_updates = stats.sampled_batches,
                              .resident_steps = stats.resident_steps,
                              .episodes = summary.episodes,
                              .mean_return = summary.mean});
    observe(result.history.back());
    return summary;
  };
  while (!result.solved && result.seconds < options.time_limit_seconds) {
    std::this_thread::sleep_for(kLookEvery);
    const Scoreboard::Summary recent = look();
    result.solved = recent.full && recent.mean >= options.screen_score && judge.passes();
  }
  look();
  replay.close();
  ReplayTime time;
  for (auto& thread : threads) {
    time += thread.get();
  }
  if (!result.solved) {
    judge.judge_last();
  }
  result.final_score = judge.final_score();
  result.final_tests = judge.final_tests();
  result.replay = replay.stats();
  account(result, time);
  return result;
}

}  // namespace apex
