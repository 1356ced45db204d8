#include "measuring/report.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace apex {

void print_result(const Options& options, const Result& result) {
  std::printf("%s after %.1f s, %llu environment steps and %llu updates (seed %llu)\n",
              result.solved ? "Solved" : "Not solved", result.seconds,
              static_cast<unsigned long long>(result.replay.committed_steps),
              static_cast<unsigned long long>(result.replay.sampled_batches),
              static_cast<unsigned long long>(options.seed));
  std::printf("Final test: %.1f +- %.1f over %zu greedy episodes on fresh seeds (needs %.0f)\n",
              static_cast<double>(result.final_score.mean),
              static_cast<double>(result.final_score.deviation), result.final_score.episodes,
              static_cast<double>(options.target_score));
  std::printf(
      "Replay calls took %.1f%% of the core time of actors and learner; %.2f items sampled per "
      "step\n",
      100.0 * result.replay_share, result.replay.samples_per_insert);
}

void write_json(const std::string& path, const Options& options, const Result& result) {
  nlohmann::ordered_json json;
  json["solved"] = result.solved;
  json["seconds_to_solve"] =
      result.solved ? nlohmann::ordered_json(result.seconds) : nlohmann::ordered_json(nullptr);
  json["evaluation_mean"] = result.final_score.mean;
  json["evaluation_std"] = result.final_score.deviation;
  json["evaluation_episodes"] = result.final_score.episodes;
  json["final_tests"] = result.final_tests;
  json["environment_steps"] = result.replay.committed_steps;
  json["learner_updates"] = result.replay.sampled_batches;
  json["samples_per_insert"] = result.replay.samples_per_insert;
  json["replay_share"] = result.replay_share;
  json["waiting_share"] = result.waiting_share;
  json["seconds"] = result.seconds;
  json["seed"] = options.seed;
  json["actors"] = options.actors;
  json["environments_per_actor"] = options.environments;
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  if (!file.flush()) {
    throw std::runtime_error("cannot write the result to '" + path + "'");
  }
}

}  // namespace apex
