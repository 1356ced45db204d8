// Parses the command line, prints the learning curve, and prints or writes the result.

#include "training.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

namespace apex {
namespace {

void add_options(CLI::App& app, Options& options) {
  std::string heading = "Run";
  const auto add = [&](const char* name, auto& value, const char* help,
                       const CLI::Validator& allowed = {}) {
    return app.add_option(name, value, help)->group(heading)->check(allowed);
  };
  const CLI::Range rate(0.0, 1.0);
  const auto& positive = CLI::PositiveNumber;
  add("--seed", options.seed, "Seed of environments, exploration, network and draws");
  add("--time-limit", options.time_limit_seconds, "Seconds until it gives up, tests included",
      positive);
  add("--target-score", options.target_score,
      "Mean return of the final test that counts as solved");
  add("--screen-score", options.screen_score,
      "Mean of recent training returns, and of 20 screening episodes, before the final test");
  add("--json", options.json_path, "Write the result to this file");

  heading = "Checkpoints";
  const auto checkpoint = add("--checkpoint", options.checkpoint_path,
                              "Save buffer and learner again and again to this new directory");
  add("--resume", options.resume_path,
      "Go on from the newest checkpoint in this directory, and save there, with the --hidden, "
      "options of Replay and product of --actors and --environments that it was saved with",
      CLI::ExistingDirectory)
      ->excludes(checkpoint);
  add("--checkpoint-seconds", options.checkpoint_seconds, "Seconds between two saves", positive);

  heading = "Actors";
  add("--actors", options.actors, "Actor threads", CLI::Range(1, 256));
  add("--environments", options.environments, "Environments of each actor", CLI::Range(1, 4096));
  add("--epsilon", options.epsilon, "Exploration of the most curious environment", rate);
  add("--epsilon-exponent", options.epsilon_exponent,
      "The greediest environment explores with epsilon^(1 + this)", CLI::NonNegativeNumber);
  add("--fetch-steps", options.fetch_steps, "Steps of an actor between looks for networks",
      positive);

  heading = "Learner";
  add("--hidden", options.hidden, "Width of the two hidden layers", CLI::Range(1, 65536));
  add("--learning-rate", options.learning_rate, "Adam's step size", positive);
  add("--gradient-clip", options.gradient_clip, "Largest norm of a gradient", positive);
  add("--target-rate", options.target_rate, "How far the target network follows each update", rate);
  add("--reward-scale", options.reward_scale, "Factor on rewards in the loss", positive);
  add("--batch", options.batch, "Items in a batch", CLI::Range(1, 1 << 20));
  add("--publish-updates", options.publish_updates, "Updates between publications", positive);

  heading = "Replay";
  add("--discount", options.discount, "Discount per step", rate);
  add("--n-step", options.n_step, "Steps in a return", CLI::Range(1, 1000));
  add("--alpha", options.alpha, "Exponent of the priorities", CLI::Range(0.0, 8.0));
  add("--beta", options.beta, "Exponent of the importance weights", rate);
  add("--capacity", options.capacity_steps, "Steps kept", positive);
  add("--warmup", options.warmup_steps, "Items needed before learning starts", positive);
  add("--samples-per-insert", options.samples_per_insert,
      "Items sampled per inserted step; actors and learner wait for each other", positive);
  add("--slack-steps", options.slack_steps,
      "Steps of each environment by which either side may leave that ratio", CLI::Range(1.0, 1e6));
}

/// Prints a line in a form that curve.gnuplot can draw.
void print_point(const Point& now) {
  std::printf("%6.1f s | %8zu steps | %7zu updates | mean return %7.1f\n", now.seconds,
              now.environment_steps, now.updates, now.mean);
  std::fflush(stdout);
}

void print_result(const Options& options, const Result& result) {
  std::printf("%s after %.1f s, %zu environment steps and %zu updates (seed %lu)\n",
              result.solved ? "Solved" : "Not solved", result.end.seconds,
              result.end.environment_steps, result.end.updates, options.seed);
  std::printf("Final test: %.1f over 100 greedy episodes on fresh seeds (needs %.0f in time)\n",
              result.score, options.target_score);
}

void write_json(const Options& options, const Result& result) {
  std::ofstream file(options.json_path);
  file << std::boolalpha << "{\n  \"solved\": " << result.solved;
  file << ",\n  \"seconds\": " << result.end.seconds;
  file << ",\n  \"evaluation_mean\": " << result.score;
  file << ",\n  \"environment_steps\": " << result.end.environment_steps;
  file << ",\n  \"learner_updates\": " << result.end.updates;
  file << ",\n  \"seed\": " << options.seed << "\n}\n";
  if (!file.flush()) {
    throw std::runtime_error("cannot write to '" + options.json_path + "'");
  }
}

}  // namespace
}  // namespace apex

int main(int argc, char** argv) {
  CLI::App app(
      "Ape-X style DQN on LunarLander-v2 with reprise: actor threads fill a prioritized replay "
      "buffer while one learner draws from it.\n"
      "Exit status: 0 solved, 1 not solved, 2 something failed, above 100 bad options.");
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  apex::Options options;
  apex::add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    const apex::Result result = apex::train(options, apex::print_point);
    apex::print_result(options, result);
    if (!options.json_path.empty()) {
      apex::write_json(options, result);
    }
    return result.solved ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "apex_lunar_lander: %s\n", error.what());
    return 2;
  }
}
