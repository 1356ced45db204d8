#include "account.hpp"
#include "figures.hpp"
#include "findings.hpp"
#include "options.hpp"
#include "report.hpp"
#include "tally.hpp"

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>

namespace stress {
namespace {

using Json = nlohmann::ordered_json;

/// Sets "a.b" as object["a"]["b"].
void set_path(Json& object, const std::string& key, double value) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) {
    object[key] = value;
  } else {
    object[key.substr(0, dot)][key.substr(dot + 1)] = value;
  }
}

Json load_json(const Options& options, const Tally& tally) {
  return {{"implementation", name_of(tally.implementation)},
          {"actors", options.actors},
          {"learners", options.learners},
          {"seconds", tally.seconds},
          {"capacity_steps", options.capacity_steps},
          {"chunk_steps", options.chunk_steps},
          {"shards", options.shards},
          {"observation_bytes", options.observation_bytes},
          {"n_step", options.n_step},
          {"frame_stack", options.frame_stack},
          {"batch", options.batch},
          {"pace", options.pace},
          {"churn", options.churn},
          {"selector", options.selector},
          {"remover", options.remover},
          {"window", options.window},
          {"limiter", options.limiter},
          {"draws", options.draws},
          {"max_times_sampled", options.max_times_sampled},
          {"set_alpha_every", options.set_alpha_every},
          {"checks", options.checks == Checks::All ? "all" : "rows"},
          {"seed", options.seed}};
}

/// `runs`: what the figures are medians of.
Json tally_json(const Options& options, const Tally& tally, std::span<const Tally> runs) {
  Json json = load_json(options, tally);
  const Account& account = tally.account;
  json["committed_steps"] = account.committed;
  json["resident_steps"] = account.resident;
  json["evicted_steps"] = account.evicted;
  json["pending_steps"] = account.pending;
  json["sampled_items"] = account.sampled;
  json["applied_updates"] = account.applied;
  json["stale_updates"] = account.stale;
  json["torn_rows"] = tally.found(Finding::TornRow);
  json["wrong_windows"] = tally.found(Finding::WrongWindow);
  json["wrong_priorities"] = tally.found(Finding::WrongPriority);
  json["zero_weight_draws"] = tally.found(Finding::ZeroWeightDraw);
  json["wrong_orders"] = tally.found(Finding::WrongOrder);
  json["items_drawn_too_often"] = tally.found(Finding::DrawnTooOften);
  json["broken_limits"] = tally.found(Finding::BrokenLimit);
  json["misled_removers"] = tally.found(Finding::MisledRemover);
  json["accounting_errors"] = tally.found(Finding::AccountingError);
  json["missed_refusals"] = tally.found(Finding::MissedRefusal);
  json["broken_checkpoints"] = tally.found(Finding::BrokenCheckpoint);
  json["unexpected_errors"] = tally.found(Finding::UnexpectedError);
  json["misdirected_updates"] = tally.found(Finding::MisdirectedUpdate);
  json["violations"] = tally.violations;
  json["violation_examples"] = tally.examples;
  json["rounds"] = tally.rounds;
  json["quiescent_points"] = tally.quiescent_points;
  json["closes_under_load"] = tally.closes;
  json["longest_close_ms"] = tally.longest_close_ms;
  json["checkpoints"] = tally.checkpoints;
  json["checkpoint_items"] = tally.checkpoint_items;
  json["checkpoint_keys"] = tally.checkpoint_keys;
  json["actor_lives"] = tally.actor_lives;
  json["learner_lives"] = tally.learner_lives;
  json["simulator_exceptions"] = tally.exceptions;
  for (const Figure& figure : kFigures) {
    set_path(json, figure.key, median(runs, figure));
  }
  return json;
}

Json sum_json(const Options& options, std::span<const Tally> runs) {
  Tally sum = runs.front();
  for (const Tally& run : runs.subspan(1)) {
    sum.merge(run);
  }
  return tally_json(options, sum, runs);
}

void write(const std::string& path, const Json& json) {
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  file.close();
  if (!file) {
    throw std::runtime_error("cannot write '" + path + "'");
  }
}

}  // namespace

void write_json(const std::string& path, const Options& options, const Tally& tally) {
  write(path, tally_json(options, tally, {&tally, 1}));
}

void write_json(const std::string& path, const Options& options, const Comparison& comparison) {
  Json json;
  json["repeats"] = comparison.reprise.size();
  json["reprise"] = sum_json(options, comparison.reprise);
  json["textbook"] = sum_json(options, comparison.textbook);
  for (const Figure& figure : kFigures) {
    const double theirs = median(comparison.textbook, figure);
    set_path(json["ratios"], figure.key,
             theirs > 0.0 ? median(comparison.reprise, figure) / theirs : 0.0);
  }
  json["violations"] = json["reprise"]["violations"].get<std::uint64_t>() +
                       json["textbook"]["violations"].get<std::uint64_t>();
  write(path, json);
}

}  // namespace stress
