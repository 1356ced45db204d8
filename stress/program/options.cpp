#include "program/options.hpp"

#include "program/schedule.hpp"
#include "program/strategies.hpp"
#include "testing/worlds/world.hpp"

#include <CLI/App.hpp>
#include <CLI/CLI.hpp>  // IWYU pragma: keep (defines what the others declare)
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>

namespace stress {
namespace {

void add_load(CLI::App& app, Options& options) {
  app.option_defaults()->group("Load");
  const CLI::Range positive(std::size_t{1}, std::size_t{1} << 40U);
  app.add_option("--actors", options.actors, "Threads that append")->check(CLI::Range(1, 4096));
  app.add_option("--learners", options.learners, "Threads that sample and update priorities")
      ->check(CLI::Range(0, 256));
  app.add_option("--guests", options.guests,
                 "How many of the actors, and of the learners, attach to the buffer as another "
                 "process does, and use it through shared memory and sockets")
      ->check(CLI::Range(0, 4096));
  app.add_option("--environments", options.environments,
                 "Environments of each actor, which steps a part of them at a time by a "
                 "VectorWriter; 0: one, by a Writer that dies in mid-episode and whose simulator "
                 "throws")
      ->check(CLI::Range(0, 4096));
  app.add_option("--seconds", options.seconds, "Measured time; with --churn, time in all")
      ->check(CLI::Range(0.05, 1e6));
  app.add_option("--batch", options.batch, "Items in a batch")->check(positive);
  app.add_flag("--read-by-name", options.read_by_name,
               "Learners read each batch again by its keys, and as many items of earlier batches, "
               "of which some are gone");
  app.add_flag("--remove", options.remove,
               "Learners remove some of the items that they update, which must not come again");
  app.add_flag("--mutable-column", options.mutable_column,
               "Learners replace the values of a mutable column in the steps that they draw, while "
               "others read them: each value is whole and of its step");
  app.add_flag(
      "--hindsight", options.hindsight,
      "Learners give the items that they draw goals that their episodes achieved; each goal "
      "has to be the observation at the distance told; without effect on sequences and "
      "n-step returns");
  app.add_flag("--mixed", options.mixed,
               "Learners draw and update by a MixedSampler whose two parts are the buffer; without "
               "effect if items are drawn in an order, fresh, without replacement or in passes, or "
               "with --max-times-sampled");
  app.add_flag("--churn", options.churn,
               "Rounds of random length, each with a new buffer, some ended by close(); threads "
               "come and go, writers are destroyed in mid-episode, simulators throw, many keys "
               "are stale");
  app.add_option("--seed", options.seed, "Start of everything random");
}

void add_schedule(CLI::App& app, Options& options) {
  app.add_option("--schedule", options.schedule,
                 "Seed of the schedule points: at every step of the protocol a thread may yield or "
                 "sleep; 0: never. Needs a build with REPRISE_SCHEDULE_POINTS (preset schedule)")
      ->check([](const std::string& text) {
        return kHasSchedulePoints || text == "0"
                   ? std::string()
                   : "this program was built without schedule points: use the preset schedule";
      });
}

void add_buffer(CLI::App& app, Options& options) {
  app.option_defaults()->group("Buffer");
  app.add_option("--capacity-steps", options.capacity_steps, "Steps that the buffer keeps")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 32U));
  app.add_option("--chunk-steps", options.chunk_steps, "Rows in a chunk; 0: the buffer's default");
  app.add_option("--shards", options.shards, "Shards; 0: the buffer's default");
  app.add_option("--observation-bytes", options.observation_bytes, "Bytes of one observation")
      ->check(CLI::Range(reprise::test::World::kMinNameBytes, std::size_t{1} << 30U));
  app.add_option("--n-step", options.n_step, "Steps in a return; of sequences one of each step")
      ->check(CLI::Range(1, 65535));
  app.add_option("--frame-stack", options.frame_stack, "Observations in a stack")
      ->check(CLI::Range(1, 65535));
}

void add_strategies(CLI::App& app, Options& options) {
  app.option_defaults()->group("Strategies");
  app.add_option("--selector", options.selector, "How items are drawn: " + selector_names());
  app.add_option("--remover", options.remover,
                 "Which steps leave a full buffer: " + remover_names());
  app.add_option(
      "--window", options.window,
      "What an item spans: transitions, with --n-step and --frame-stack, or "
      "sequences[:length[,period[,burn_in[,end[,n_step]]]]] with --frame-stack, end being "
      "one of zero_pad, drop, overlap, continue (period 1), and n_step that of --n-step, or 0 for "
      "no returns");
  app.add_option("--limiter", options.limiter,
                 "Who has to wait for whom: " + limiter_names() +
                     ", with the numbers of the library's options behind a colon, as in "
                     "sample_to_insert_ratio:4,100,2000");
  app.add_option("--draws", options.draws,
                 "stratified, independent, without_replacement, epoch, or either: one of the first "
                 "two by chance; without effect if items are drawn in an order; with "
                 "--max-times-sampled epoch means either");
  app.add_option(
         "--fresh", options.fresh,
         "Share of each batch that is items never drawn before; without effect if items are "
         "drawn in an order, without replacement or in passes, or with --max-times-sampled")
      ->check(CLI::Range(0.0F, 1.0F));
  app.add_option("--max-times-sampled", options.max_times_sampled,
                 "Draws after which an item is not drawn any more; 0: no limit, or 1 with a queue, "
                 "which needs one");
  app.add_option(
      "--max-staleness", options.max_staleness,
      "How many versions of the policy an item may be behind; steps have versions, and at "
      "times a learner raises the policy's to the middle one of its batch; none: no limit");
  app.add_option(
      "--set-alpha-every", options.set_alpha_every,
      "The first learner changes the exponent of priorities each time it has drawn so many "
      "batches, while others draw and update; 0: never. Only with --selector proportional");
}

void check_strategies(const Options& options) {
  if (options.set_alpha_every != 0 && options.selector != "proportional") {
    throw CLI::ValidationError("--set-alpha-every",
                               "--selector is " + options.selector + "; allowed: proportional");
  }
}

void add_checkpoint(CLI::App& app, Options& options) {
  app.option_defaults()->group("Checkpoints");
  app.add_option("--checkpoint", options.checkpoint_path,
                 "Save the buffer into this directory about once a second while it is used, and "
                 "at some of the moments when all stand still, load each checkpoint and check "
                 "what is in it");
}

}  // namespace

ParsedOptions parse_options(int argc, char** argv) {
  ParsedOptions parsed;
  CLI::App app(
      "Checks a replay buffer under load: actors append rows that name themselves, "
      "learners draw, check every window in full and write priorities back, and the account of "
      "steps is checked whenever all threads stand still.\n"
      "Exit status: 0 no violation, 1 violations or a failure, 2 bad options.",
      "reprise-stress");
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  add_load(app, parsed.options);
  add_schedule(app, parsed.options);
  add_buffer(app, parsed.options);
  add_strategies(app, parsed.options);
  add_checkpoint(app, parsed.options);
  try {
    app.parse(argc, argv);
    check_strategies(parsed.options);
    if (parsed.options.max_times_sampled == 0 && parsed.options.limiter.starts_with("queue")) {
      parsed.options.max_times_sampled = 1;
    }
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = app.exit(error) == 0 ? 0 : kBadUsage;
  }
  return parsed;
}

}  // namespace stress
