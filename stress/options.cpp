#include "options.hpp"

#include "row.hpp"
#include "schedule.hpp"

#include <CLI/App.hpp>
#include <CLI/CLI.hpp>  // IWYU pragma: keep (defines what the others declare)
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>

#include <cstddef>
#include <map>
#include <string>

namespace stress {
namespace {

void add_load(CLI::App& app, Options& o) {
  const CLI::Range positive(std::size_t{1}, std::size_t{1} << 40U);
  app.add_option("--actors", o.actors, "Threads that append")
      ->check(CLI::Range(1, 4096))
      ->group("Load");
  app.add_option("--learners", o.learners, "Threads that sample and update priorities")
      ->check(CLI::Range(0, 256))
      ->group("Load");
  app.add_option("--seconds", o.seconds,
                 "Measured time, of each run with --compare; with --churn, time in all")
      ->check(CLI::Range(0.05, 1e6))
      ->group("Load");
  app.add_option("--pace", o.pace,
                 "Steps per second of all actors together, which then wake every millisecond; 0: "
                 "as fast as they can")
      ->check(CLI::Range(0.0, 1e12))
      ->group("Load");
  app.add_option("--batch", o.batch, "Items in a batch")->check(positive)->group("Load");
  app.add_flag("--churn", o.churn,
               "Rounds of random length, each with a new buffer, some ended by close(); threads "
               "come and go, writers are destroyed in mid-episode, simulators throw, many keys "
               "are stale")
      ->group("Load");
  app.add_option("--seed", o.seed, "Start of everything random")->group("Load");
}

void add_schedule(CLI::App& app, Options& o) {
  app.add_option("--schedule", o.schedule,
                 "Seed of the schedule points: at every step of the protocol a thread may yield or "
                 "sleep; 0: never. Needs a build with REPRISE_SCHEDULE_POINTS (preset schedule)")
      ->check([](const std::string& text) {
        return has_schedule_points() || text == "0"
                   ? std::string()
                   : "this program was built without schedule points: use the preset schedule";
      })
      ->group("Load");
}

void add_buffer(CLI::App& app, Options& o) {
  app.add_option("--capacity-steps", o.capacity_steps, "Steps that the buffer keeps")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 32U))
      ->group("Buffer");
  app.add_option("--chunk-steps", o.chunk_steps, "Rows in a chunk; 0: the buffer's default")
      ->group("Buffer");
  app.add_option("--shards", o.shards, "Shards; 0: the buffer's default")->group("Buffer");
  app.add_option("--observation-bytes", o.observation_bytes, "Bytes of one observation")
      ->check(CLI::Range(kMinObservationBytes, std::size_t{1} << 30U))
      ->group("Buffer");
  app.add_option("--n-step", o.n_step, "Steps in a return")
      ->check(CLI::Range(1, 65535))
      ->group("Buffer");
  app.add_option("--frame-stack", o.frame_stack, "Observations in a stack")
      ->check(CLI::Range(1, 65535))
      ->group("Buffer");
}

void add_output(CLI::App& app, Options& o) {
  app.add_option("--implementation", o.implementation,
                 "reprise, or textbook: one mutex, binary trees, rows with their next observation. "
                 "A textbook index may name another row by the time of an update; such updates are "
                 "shown as misdirected and are no violations there, as it promises nothing else")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Implementation>{
          {"reprise", Implementation::Reprise}, {"textbook", Implementation::Textbook}}))
      ->default_str("reprise")
      ->group("What to run");
  app.add_flag("--compare", o.compare, "Run both, interleaved; print medians and ratios")
      ->group("What to run");
  app.add_option("--repeats", o.repeats, "Runs of each with --compare")
      ->check(CLI::Range(1, 1000))
      ->group("What to run");
  app.add_option("--checks", o.checks,
                 "all, or rows: only the hash of each sampled observation, as the workloads of the "
                 "benchmarks are defined; each learner then updates all it drew, else the items "
                 "that it owns")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Checks>{{"all", Checks::All}, {"rows", Checks::Rows}}))
      ->default_str("all")
      ->group("What to run");
  app.add_option("--json", o.json_path, "Write the result to this file")->group("Output");
  app.add_option("--picture", o.picture_path,
                 "Draw histograms of the latencies into this .svg or .png (needs gnuplot)")
      ->group("Output");
}

}  // namespace

ParsedOptions parse_options(int argc, char** argv) {
  ParsedOptions parsed;
  CLI::App app(
      "Throughput and truth of a replay buffer: actors append rows that say what they are, "
      "learners draw, check every window in full and write priorities back, and the account of "
      "steps is checked whenever all threads stand still.\n"
      "Exit status: 0 no violation, 1 violations or a failure, 2 bad options.",
      "reprise-stress");
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  add_load(app, parsed.options);
  add_schedule(app, parsed.options);
  add_buffer(app, parsed.options);
  add_output(app, parsed.options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = app.exit(error) == 0 ? 0 : kBadUsage;
  }
  return parsed;
}

}  // namespace stress
