#include "options.hpp"

#include <CLI/CLI.hpp>

namespace apex {
namespace {

void add_run(CLI::App& app, Options& options) {
  app.add_option("--seed", options.seed, "Seed of environments, exploration, network and draws")
      ->group("Run");
  app.add_option("--time-limit", options.time_limit_seconds,
                 "Seconds of training after which to give up, evaluations included")
      ->check(CLI::PositiveNumber)
      ->group("Run");
  app.add_option("--metrics", options.metrics_port,
                 "Serve metrics for Prometheus on this port; 0 for a free one, which is printed")
      ->group("Run");
  app.add_option("--json", options.json_path, "Write the result to this file")->group("Run");
  app.add_option("--plot", options.plot_path,
                 "Draw learning curve and throughput into this .svg or .png; \"\" for none")
      ->group("Run");
  app.add_option("--target-score", options.target_score, "Mean return that counts as solved")
      ->group("Run");
  app.add_option("--screen-score", options.screen_score,
                 "Mean of recent training returns, and of 20 screening episodes, from which on "
                 "the final test is tried")
      ->group("Run");
}

void add_checkpoints(CLI::App& app, Options& options) {
  CLI::Option* const checkpoint =
      app.add_option("--checkpoint", options.checkpoint_path,
                     "Save the buffer and the learner to this directory, new or empty, again and "
                     "again while training goes on")
          ->group("Checkpoints");
  app.add_option("--resume", options.resume_path,
                 "Go on from the newest checkpoint in this directory, and save there")
      ->excludes(checkpoint)
      ->check(CLI::ExistingDirectory)
      ->group("Checkpoints");
  app.add_option("--checkpoint-seconds", options.checkpoint_seconds, "Seconds between two saves")
      ->check(CLI::PositiveNumber)
      ->group("Checkpoints");
}

void add_actors(CLI::App& app, Options& options) {
  app.add_option("--actors", options.actors, "Actor threads")
      ->check(CLI::Range(1, 256))
      ->group("Actors");
  app.add_option("--environments", options.environments, "Environments of each actor")
      ->check(CLI::Range(1, 4096))
      ->group("Actors");
  app.add_option("--epsilon", options.epsilon, "Exploration of the most curious environment")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Actors");
  app.add_option("--epsilon-exponent", options.epsilon_exponent,
                 "The greediest environment explores with epsilon^(1 + this)")
      ->check(CLI::NonNegativeNumber)
      ->group("Actors");
  app.add_option("--fetch-steps", options.fetch_steps,
                 "Steps of an actor between looks for new parameters")
      ->check(CLI::PositiveNumber)
      ->group("Actors");
}

void add_learner(CLI::App& app, Options& options) {
  app.add_option("--hidden", options.hidden, "Width of the two hidden layers")
      ->check(CLI::Range(1, 65536))
      ->group("Learner");
  app.add_option("--learning-rate", options.learner.learning_rate, "Adam's step size")
      ->check(CLI::PositiveNumber)
      ->group("Learner");
  app.add_option("--gradient-clip", options.learner.gradient_clip, "Largest norm of a gradient")
      ->check(CLI::PositiveNumber)
      ->group("Learner");
  app.add_option("--target-rate", options.learner.target_rate,
                 "How far the target network follows with each update")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Learner");
  app.add_option("--reward-scale", options.learner.reward_scale, "Factor on rewards in the loss")
      ->check(CLI::PositiveNumber)
      ->group("Learner");
  app.add_option("--batch", options.batch, "Items in a batch")
      ->check(CLI::Range(1, 1 << 20))
      ->group("Learner");
  app.add_option("--publish-updates", options.publish_updates,
                 "Updates between publications of the parameters")
      ->check(CLI::PositiveNumber)
      ->group("Learner");
}

void add_replay(CLI::App& app, Options& options) {
  app.add_option("--discount", options.discount, "Discount per step")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Replay");
  app.add_option("--n-step", options.n_step, "Steps in a return")
      ->check(CLI::Range(1, 1000))
      ->group("Replay");
  app.add_option("--alpha", options.alpha, "Exponent of the priorities")
      ->check(CLI::Range(0.0, 8.0))
      ->group("Replay");
  app.add_option("--beta", options.beta, "Exponent of the importance weights")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Replay");
  app.add_option("--capacity", options.capacity_steps, "Steps kept")
      ->check(CLI::PositiveNumber)
      ->group("Replay");
  app.add_option("--warmup", options.warmup_steps, "Items needed before learning starts")
      ->check(CLI::PositiveNumber)
      ->group("Replay");
  app.add_option("--samples-per-insert", options.samples_per_insert,
                 "Items sampled per inserted step; actors and learner wait for each other")
      ->check(CLI::PositiveNumber)
      ->group("Replay");
  app.add_option("--slack-steps", options.slack_steps,
                 "Steps of each environment by which either side may leave that ratio")
      ->check(CLI::Range(1.0, 1e6))
      ->group("Replay");
}

}  // namespace

ParsedOptions parse_options(int argc, char** argv) {
  ParsedOptions parsed;
  CLI::App app(
      "Ape-X style DQN on LunarLander-v2 with reprise: actor threads fill a prioritized replay "
      "buffer while one learner draws from it.\n"
      "Exit status: 0 solved, 1 not solved, 2 something failed, above 100 bad options.");
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  add_run(app, parsed.options);
  add_checkpoints(app, parsed.options);
  add_actors(app, parsed.options);
  add_learner(app, parsed.options);
  add_replay(app, parsed.options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = app.exit(error);
  }
  return parsed;
}

}  // namespace apex
