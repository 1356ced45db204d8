// reprise-stress: throughput and correctness of a replay buffer under actors and learners that come
// and go. See --help.

#include "live_line.hpp"
#include "options.hpp"
#include "picture.hpp"
#include "report.hpp"
#include "runner.hpp"
#include "schedule.hpp"
#include "tally.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <vector>

namespace stress {
namespace {

std::uint64_t run_one(const Options& options) {
  std::vector<Tally> tallies;
  {
    LiveLine live;
    tallies.push_back(run(options, options.implementation, live));
  }
  print_summary(options, tallies.front());
  if (!options.json_path.empty()) {
    write_json(options.json_path, options, tallies.front());
  }
  if (!options.picture_path.empty()) {
    draw_picture(options.picture_path, options, tallies);
  }
  return tallies.front().violations;
}

std::uint64_t run_both(const Options& options) {
  std::vector<Tally> reprise;
  std::vector<Tally> textbook;
  {
    LiveLine live;
    for (std::size_t i = 0; i < options.repeats; ++i) {
      reprise.push_back(run(options, Implementation::Reprise, live));
      textbook.push_back(run(options, Implementation::Textbook, live));
    }
  }
  const Comparison comparison{reprise, textbook};
  print_comparison(options, comparison);
  if (!options.json_path.empty()) {
    write_json(options.json_path, options, comparison);
  }
  std::vector<Tally> sums{reprise.front(), textbook.front()};
  for (std::size_t i = 1; i < options.repeats; ++i) {
    sums[0].merge(reprise[i]);
    sums[1].merge(textbook[i]);
  }
  if (!options.picture_path.empty()) {
    draw_picture(options.picture_path, options, sums);
  }
  return sums[0].violations + sums[1].violations;
}

/// Prints the command before anything can go wrong, so that a crash leaves it too.
void say_how_to_repeat(std::uint64_t schedule, int argc, char** argv) {
  std::fprintf(stderr, "schedule seed %llu; to repeat:", static_cast<unsigned long long>(schedule));
  for (int i = 0; i < argc; ++i) {
    std::fprintf(stderr, " %s", argv[i]);
  }
  std::fputc('\n', stderr);
}

}  // namespace
}  // namespace stress

int main(int argc, char** argv) {
  try {
    const stress::ParsedOptions parsed = stress::parse_options(argc, argv);
    if (parsed.exit_code >= 0) {
      return parsed.exit_code;
    }
    stress::set_schedule(parsed.options.schedule);
    if (parsed.options.schedule != 0) {
      stress::say_how_to_repeat(parsed.options.schedule, argc, argv);
    }
    const std::uint64_t violations =
        parsed.options.compare ? stress::run_both(parsed.options) : stress::run_one(parsed.options);
    return violations == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::invalid_argument& error) {
    // Only the buffer can judge some options, such as a chunk too small for a window.
    std::fprintf(stderr, "reprise-stress: %s\n", error.what());
    return stress::kBadUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise-stress: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
