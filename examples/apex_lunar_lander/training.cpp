#include "training.hpp"

#include "actor.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

namespace apex {

reprise::Options replay_options(const Options& options) {
  const std::size_t writers = options.actors * options.environments;
  // The error buffer has room for some steps of every environment and for two batches, so that
  // neither side sleeps and wakes for every few steps of the other.
  const double slack_steps = options.slack_steps * static_cast<double>(writers);
  const double slack =
      2.0 * static_cast<double>(options.batch) + options.samples_per_insert * slack_steps;
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

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPollInterval = std::chrono::milliseconds(100);
constexpr double kSecondsPerPoint = 0.5;
constexpr std::size_t kScreeningEpisodes = 20;
constexpr std::size_t kFinalEpisodes = 100;

// Numbers of seed streams. The actors' streams begin at 0, so these are too high to meet them.
constexpr std::uint64_t kTesterStream = std::uint64_t{1} << 32U;
constexpr std::uint64_t kResumedStream = std::uint64_t{1} << 48U;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Closes the buffer at the end of a scope, also when an exception leaves the scope. Closing ends
/// the waits of all threads.
struct CloseOnExit {
  reprise::ReplayBuffer& replay;
  ~CloseOnExit() { replay.close(); }
};

/// Saves the buffer and, attached to the same checkpoint, the learner. The learner's thread calls
/// this between two updates; actors go on meanwhile.
void save(Job& job) {
  const std::string learner = job.learner.save();
  job.replay.save(job.options.checkpoint_path,
                  {.attachments = {{"learner", std::as_bytes(std::span(learner))}}});
}

/// Restores the buffer and the learner from the newest complete checkpoint.
void resume(Job& job) {
  const std::string& directory = job.options.checkpoint_path;
  const reprise::Attachments attachments = job.replay.restore(directory).attachments;
  if (!attachments.contains("learner")) {
    throw std::runtime_error(directory + " was not saved by this program: it has no learner");
  }
  job.learner.load(attachments.at("learner"));
  const std::size_t steps = job.replay.stats().committed_steps;
  job.options.seed = stream_seed(job.options.seed, kResumedStream + steps);
  std::printf("Going on from %zu environment steps in %s\n", steps, directory.c_str());
}

/// Throws if the directory has files: saving into it would remove another run's checkpoints.
void require_empty(const std::string& directory) {
  if (std::filesystem::exists(directory) && !std::filesystem::is_empty(directory)) {
    throw std::runtime_error("--checkpoint " + directory +
                             " holds something; allowed: a new directory, or --resume");
  }
}

/// The learner's thread: learns until the buffer is closed, and saves checkpoints if asked to.
void learn(Job& job) {
  use_one_tensor_thread();
  const Options& options = job.options;
  const Fields& fields = job.fields;
  reprise::Sampler sampler = job.replay.sampler({.seed = options.seed});
  Clock::time_point saved = Clock::now();
  std::size_t updates = 0;
  while (const auto batch = sampler.sample(options.batch, {.beta = options.beta})) {
    const std::span<const float> errors = job.learner.step(
        batch->now(fields.state), batch->now(fields.action), batch->returns(fields.reward),
        batch->discounts(), batch->next(fields.state), batch->weights());
    job.replay.update_priorities(batch->keys(), errors);
    if (++updates % options.publish_updates == 0) {
      job.learner.publish();
    }
    if (!options.checkpoint_path.empty() && seconds_since(saved) >= options.checkpoint_seconds) {
      save(job);
      saved = Clock::now();
    }
  }
  if (!options.checkpoint_path.empty()) {
    save(job);
  }
}

/// Adds a thread for the learner and one for each actor.
void start(Job& job, std::vector<std::future<void>>& threads) {
  const auto add = [&](const auto& work) {
    threads.push_back(std::async(std::launch::async, [&job, work] {
      const CloseOnExit close{job.replay};
      work();
    }));
  };
  add([&job] { learn(job); });
  for (std::size_t i = 0; i < job.options.actors; ++i) {
    add([&job, i] { Actor(job, i).run(); });
  }
}

/// Tests published networks in another thread while training goes on: first a screening, then the
/// final test. Every test has new seeds. The destructor waits for a running test.
class Tester {
 public:
  explicit Tester(const Job& job)
      : options_(job.options),
        policy_(job.learner),
        seeds_(stream_seed(job.options.seed, kTesterStream)) {}

  /// Looks after the tests; to be called again and again. Returns true once a network has passed
  /// both, and `result` then has its score. Otherwise starts the tests of the newest network, if
  /// none are running and recent returns are high enough.
  bool passed(const RecentReturns& recent, Result& result) {
    if (running_test_.valid()) {
      return running_test_.wait_for(std::chrono::seconds(0)) == std::future_status::ready &&
             running_test_.get();
    }
    if (recent.mean() >= options_.screen_score) {
      running_test_ = std::async(std::launch::async, [this, &result] {
        use_one_tensor_thread();
        return policy_.refresh() &&
               evaluate(policy_, seeds_, kScreeningEpisodes) >= options_.screen_score &&
               passes_final_test(result);
      });
    }
    return false;
  }

  /// Ends the tests once time is over. Waits for running tests. If the network does not pass them,
  /// gives the newest network the final test, whose score is reported but does not count as solved.
  void test_last(Result& result) {
    if (running_test_.valid() && running_test_.get()) {
      result.solved = true;
      return;
    }
    policy_.refresh();
    passes_final_test(result);
  }

 private:
  bool passes_final_test(Result& result) {
    result.score = evaluate(policy_, seeds_, kFinalEpisodes);
    return result.score >= options_.target_score;
  }

  const Options& options_;
  Policy policy_;
  Random seeds_;
  // While this is valid, only its thread uses the other members and the score of the result.
  std::future<bool> running_test_;
};

Point measure(const Job& job, Clock::time_point begin) {
  const reprise::Stats stats = job.replay.stats();
  return {.seconds = seconds_since(begin),
          .environment_steps = stats.committed_steps,
          .updates = stats.sampled_batches,
          .mean = job.returns.mean()};
}

}  // namespace

Result train(const Options& options, const std::function<void(const Point&)>& observe) {
  Job job(options);
  if (!options.resume_path.empty()) {
    job.options.checkpoint_path = options.resume_path;
    resume(job);
  } else {
    require_empty(options.checkpoint_path);
  }
  job.learner.publish();
  const Clock::time_point begin = Clock::now();
  Result result;
  Tester tester(job);
  std::vector<std::future<void>> threads;  // Destroyed after `close`, and thereby joined.
  const CloseOnExit close{job.replay};
  start(job, threads);
  double last_shown = 0.0;
  while (!result.solved && result.end.seconds < options.time_limit_seconds &&
         !job.replay.closed()) {
    std::this_thread::sleep_for(kPollInterval);
    result.solved = tester.passed(job.returns, result);
    result.end = measure(job, begin);
    if (result.end.seconds - last_shown >= kSecondsPerPoint) {
      last_shown = result.end.seconds;
      observe(result.end);
    }
  }
  job.replay.close();
  for (std::future<void>& thread : threads) {
    thread.get();
  }
  if (!result.solved) {
    tester.test_last(result);
  }
  return result;
}

}  // namespace apex
